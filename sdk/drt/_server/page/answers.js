// Questions and their answers: quotes, what a writer wrote, where it was found, exports.
"use strict";

async function ask(question) {
  checkPages();
  if (!session) { // named by its first question, and its second, so that no other has the name
    const words = [...question.replace(/[^\p{L}\p{N}\p{P}\p{S}]+/gu, " ")].slice(0, 60).join("").trim();
    session = `${words}, ${new Date().toISOString().slice(0, 19).replace("T", " ")}`;
  }
  const turn = make("li");
  const state = make("p", "Reading ...", "state");
  turn.append(make("p", question, "asked"), state);
  element("turns").append(turn);
  element("empty").hidden = true;
  turn.scrollIntoView({ block: "nearest" });
  const unread = [...reading.values()];
  const asked = { ...part(), ...(selected.size && { documents: [...selected] }) };
  try {
    const answer = await answered({ question, session, ...asked }, turn, state);
    turn.replaceChildren(...turnNodes(answer, asked));
    const words = partWords(asked);
    if (words) turn.append(make("p", `Asked of what is ${words}.`, "state"));
    if (unread.length) turn.append(make("p", `When this was asked, ${unread.join(" and ")} ${unread.length > 1 ? "were" : "was"} still being read: ask again for what is in there.`, "state"));
  } catch (error) {
    state.textContent = error.message;
  }
  await loadSessions();
  turn.scrollIntoView({ block: "nearest" });
}

// Ask, and show what is read and written until the answer is there.
async function answered(body, turn, state) {
  if (element("writer").checked) body.writer = true;
  const headers = { Accept: "text/event-stream" };
  const response = await call("v1/ask", { method: "POST", body: JSON.stringify(body), headers });
  let place = null;
  let written = null;
  for await (const [name, value] of events(response)) {
    if (name === "answer") return value;
    if (name === "error") throw new Error(value.error.message);
    if (name === "reading") {
      if (!value.read || !place) {  // the rest stays, so that a screen reader says only the number
        state.replaceChildren("Reading ", place = make("span"), ` passages, here first: ${value.text} (${value.title})`);
      }
      place.textContent = `${value.read + 1} of ${value.passages}`;
    }
    if (name === "sentence") {
      if (!written) turn.append(written = make("p", undefined, "written"));
      written.append(...sentenceNodes(value));
    }
  }
  throw new Error("The server ended before the answer was complete; ask again.");
}

async function summarize(item) {
  const turn = make("li");
  const name = `Summary of ${item.title || item.source}`;
  const state = make("p", "Reading ...", "state");
  turn.append(make("p", name, "asked"), state);
  element("turns").append(turn);
  element("empty").hidden = true;
  turn.scrollIntoView({ block: "nearest" });
  try {
    const body = JSON.stringify({ documents: [item.id], length: "short" });
    const summary = await json("v1/summarize", { method: "POST", body });
    state.textContent = summary.about || "By sentences of the document:";
    turn.append(...summary.sentences.map(citationNode), copyButton(() => [name, summary.summary].join("\n\n")));
  } catch (error) {
    state.textContent = error.message;
  }
  turn.scrollIntoView({ block: "nearest" });
}

// Turns of conversations that older versions stored have no probability.
function likelihood({ quote_probability: probability }) {
  return typeof probability === "number" ? `, right with a probability of ${Math.round(100 * probability)}%` : "";
}

function turnNodes(answer, asked) {
  const states = { likely: "The document probably says it here:", none: "The document does not say." };
  const summary = answer.mode === "summary";
  const state = summary ? "Summary, by sentences of the document:"
    : answer.found ? `${answer.writing ? "Quotes" : "Answer"}${likelihood(answer)}` : states[answer.state] || states.none;
  return [
    make("p", answer.question, "asked"),
    ...(answer.writing ? writingNodes(answer.writing) : []),
    make("p", state, "state"),
    ...(answer.found && !summary && answer.answer !== answer.citations[0]?.quote ? [make("p", answer.answer)] : []),
    ...answer.citations.flatMap((citation, at) =>
      citation.likely && at ? [make("p", answer.found ? "The other part of the question is probably answered here:" : "Or here:", "state"), citationNode(citation)] : [citationNode(citation)]),
    ...(summary ? [] : [mapNode(answer.question, asked)]),
    ...(session ? [exportNode(answer.question, session)] : []),
  ];
}

// copy and export

const EXPORTS = [
  ["html", "Page to share (HTML)", "html"], ["markdown", "Markdown", "md"], ["obsidian", "Obsidian", "md"],
  ["bibtex", "BibTeX", "bib"], ["csl-json", "CSL-JSON", "json"],
];

function exportNode(question, name) {
  const details = make("details");
  const buttons = make("div", undefined, "buttons");
  buttons.append(copyButton(() => exported(question, name, "markdown")));
  for (const [format, label, ending] of EXPORTS) {
    const button = make("button", label);
    button.type = "button";
    button.addEventListener("click", () => attempt(async () => save(await exported(question, name, format), `answer.${ending}`)));
    buttons.append(button);
  }
  details.append(make("summary", "Copy or save"), buttons);
  return details;
}

// The last answer to this question in its conversation.
async function exported(question, name, format) {
  const { turns } = await json(`v1/sessions/${encodeURIComponent(name)}`);
  const turn = 1 + turns.map((entry) => entry.question).lastIndexOf(question);
  return (await call(`v1/export?${new URLSearchParams({ session: name, turn, format })}`)).text();
}

function copyButton(text) {
  const button = make("button", "Copy");
  button.type = "button";
  button.addEventListener("click", () => attempt(async () => {
    await copy(await text());
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }));
  return button;
}

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = make("textarea"); // without TLS only this machine's own pages have a clipboard
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("This browser does not let the page copy; save it as Markdown instead.");
}

function save(text, name) {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Where an answer was looked for: the landmark scores along each document, and what was retrieved.
function mapNode(question, asked) {
  const details = make("details");
  const state = make("p", "Reading ...", "state");
  details.append(make("summary", "Where it was found"), state);
  let begun = false;
  details.addEventListener("toggle", async () => {
    if (!details.open || begun) return;
    begun = true;
    try {
      const body = JSON.stringify({ question, ...asked });
      state.replaceWith(...mapNodes(await json("v1/trace", { method: "POST", body })));
    } catch (error) {
      state.textContent = error.message;
      begun = false;
    }
  });
  return details;
}

function mapNodes(trace) {
  const best = new Map();
  for (const entry of trace.groups.flatMap((group) => group.entries)) {
    if (entry.probability > (best.get(entry.handle)?.probability ?? -1)) best.set(entry.handle, entry);
  }
  const entries = [...best.values()].sort((a, b) => b.probability - a.probability);
  const strips = trace.documents.flatMap((item) => [
    make("p", item.title || item.source, "place"),
    stripNode(item, entries.filter((entry) => entry.document === item.id)),
  ]);
  const list = make("ul");
  for (const entry of entries.slice(0, 8)) {
    const button = make("button", `${Math.round(100 * entry.probability)}%: ${entry.text.trim().slice(0, 90)} ...`, "citation");
    button.type = "button";
    button.append(make("span", place({ line: null, ...entry }), "place"));
    button.addEventListener("click", () => attempt(() => open(entry.handle, button)));
    const row = make("li");
    row.append(button);
    list.append(row);
  }
  return [...strips, make("p", "Retrieved passages, with the weight that each was read with:", "state"), list];
}

function stripNode(item, entries) {
  const strip = make("div", undefined, "strip");
  strip.setAttribute("aria-hidden", "true"); // the list below says the same
  const [low, high] = [Math.min(...item.heat), Math.max(...item.heat)];
  const heights = item.heat.map((value, at) => `L${at} ${40 - (36 * (value - low)) / (high - low || 1)}`);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${Math.max(1, item.heat.length - 1)} 42`);
  svg.setAttribute("preserveAspectRatio", "none");
  const path = document.createElementNS(svg.namespaceURI, "path");
  path.setAttribute("d", `M0 42 ${heights.join(" ")} L${item.heat.length - 1} 42 Z`);
  svg.append(path);
  strip.append(svg);
  for (const entry of entries) {
    const light = make("span");
    light.style.left = `${(100 * entry.start) / Math.max(1, item.characters)}%`;
    light.style.opacity = 0.25 + 0.75 * entry.probability;
    strip.append(light);
  }
  return strip;
}

// What a language model wrote: sentences without support are marked, and its sources are drt's own.
function writingNodes(writing) {
  const states = {
    written: "every sentence is supported", partly: "some sentences are supported",
    unsupported: "no sentence is supported", "no answer": "it finds no answer in the passages",
  };
  const head = writing.problem ? writing.problem.replace(/^./, (first) => first.toUpperCase()) : `Written by ${writing.model || writing.host}: ${states[writing.state]}.`;
  const text = make("p", undefined, "written");
  for (const sentence of writing.sentences) text.append(...sentenceNodes(sentence));
  const sources = writing.sources.map((source) => {
    const node = citationNode(source);
    node.prepend(`[${source.number}] `);
    return node;
  });
  return [make("p", head, "state"), ...(writing.sentences.length ? [text] : []), ...sources];
}

function sentenceNodes({ text, supported, problem }) {
  const node = make("span", text, ...(supported ? [] : ["unsupported"]));
  return [node, supported ? " " : ` [unsupported: ${problem}] `];
}

function citationNode(citation) {
  const button = make("button", undefined, "citation");
  button.type = "button";
  const at = citation.sentence.indexOf(citation.quote);
  const sentence = make("span");
  if (at < 0) sentence.append(make("mark", citation.quote));
  else {
    const end = at + citation.quote.length;
    sentence.append(
      citation.sentence.slice(0, at), make("mark", citation.quote), citation.sentence.slice(end));
  }
  button.append(sentence, make("span", ` ${place(citation)}`, "place"));
  button.addEventListener("click", () => attempt(() => open(citation.handle, button)));
  return button;
}

function place(item, withTitle = true) {
  const parts = withTitle ? [item.title] : [];
  if (item.page !== null) {
    const label = item.page_label;
    parts.push(label ? `page ${label} (page ${item.page} of the file)` : `page ${item.page}`);
  }
  if (item.section) parts.push(item.section.replace(`${item.title} > `, ""));
  if (item.line !== null) parts.push(`line ${item.line}`);
  return parts.join(", ");
}
