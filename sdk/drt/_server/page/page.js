// The page of drt serve. Text of documents only ever becomes text nodes.
"use strict";

const element = (id) => document.getElementById(id);
const token = { value: sessionStorage.getItem("token") || "" };
const SVG = document.querySelector("template").content.firstElementChild.namespaceURI;
let documents = [];
const selected = new Set();
let session = "";

function make(tag, text, ...classes) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  node.classList.add(...classes);
  return node;
}

async function call(path, options = {}) {
  const headers = { ...options.headers };
  if (token.value) headers.Authorization = `Bearer ${token.value}`;
  const response = await fetch(path, { ...options, headers });
  if (response.status === 401) element("token-form").hidden = false;
  if (!response.ok) {
    const body = await response.json().catch(() => null);
    throw new Error(body?.error?.message || `The server answered with status ${response.status}.`);
  }
  return response;
}

const json = async (path, options) => (await call(path, options)).json();

function explain(error) {
  element("problem").textContent = error ? error.message : "";
}

// Run an action of the user, and show what went wrong with it.
async function attempt(action) {
  explain(null);
  try {
    await action();
  } catch (error) {
    explain(error);
  }
}

// Server-sent events of a response, as [name, value].
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const match = /^event: (.*)\ndata: ([^]*)$/.exec(part);
      if (match) yield [match[1], JSON.parse(match[2])];
    }
  }
}

// the library

async function loadDocuments() {
  documents = (await json("v1/documents")).documents;
  for (const id of selected) if (!documents.some((item) => item.id === id)) selected.delete(id);
  showDocuments();
}

function showDocuments() {
  const words = element("filter").value.toLowerCase();
  const named = (item) => `${item.title} ${item.source} ${(item.tags || []).join(" ")}`.toLowerCase();
  const shown = documents.filter((item) => named(item).includes(words));
  const focused = document.activeElement?.id;
  const opened = [...element("documents").querySelectorAll("details[open]")].map((node) => node.id);
  element("documents").replaceChildren(...shown.slice(0, 500).map(documentRow));
  for (const id of opened) if (element(id)) element(id).open = true;
  if (focused) element(focused)?.focus(); // rows are made anew, and a keyboard stays where it was
  rove(document.activeElement?.closest("#documents li"));
  const chosen = selected.size ? `, asking ${selected.size} of them` : "";
  element("count").textContent = documents.length ? `${shown.length} of ${documents.length} documents${chosen}` : "No documents yet.";
}

// The list is one stop of the Tab key: one row has it, and arrow keys move to others.
function rove(row) {
  const rows = [...element("documents").children];
  for (const other of rows) {
    const index = other === (row || rows[0]) ? 0 : -1;
    for (const node of other.querySelectorAll("input, button, summary")) node.tabIndex = index;
  }
}

function moveInList(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const row = event.target.closest("#documents li");
  if (!step || !row || event.target.type === "text") return;
  const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
  if (!next) return;
  event.preventDefault();
  const kind = event.target.id.split("-")[0];
  rove(next);
  (next.querySelector(`[id^=${kind}-]`) || next.querySelector("input")).focus();
}

function documentRow(item) {
  const row = make("li");
  const name = item.title || item.source;
  const box = make("input");
  box.type = "checkbox";
  box.id = `choose-${item.id}`;
  box.setAttribute("aria-label", `Ask only ${name}`);
  box.checked = selected.has(item.id);
  box.addEventListener("change", () => {
    if (box.checked) selected.add(item.id);
    else selected.delete(item.id);
    showDocuments();
  });
  const title = make("button", name, "title");
  title.type = "button";
  title.id = `open-${item.id}`;
  title.addEventListener("click", () => attempt(() => openDocument(item, title)));
  const head = make("div", undefined, "head");
  head.append(box, title);
  const left = make("div");
  left.append(head);
  if (item.tags?.length) left.append(make("p", item.tags.join(", "), "tags"));
  const button = make("button", "Remove");
  button.type = "button";
  button.id = `remove-${item.id}`;
  button.setAttribute("aria-label", `Remove ${name}`);
  button.addEventListener("click", () => {
    if (button.textContent === "Remove") {
      button.textContent = "Really remove?";
      button.setAttribute("aria-label", `Really remove ${name}?`);
      return;
    }
    attempt(async () => {
      await call(`v1/documents/${encodeURIComponent(item.id)}`, { method: "DELETE" });
      await loadDocuments();
      element("filter").focus();
    });
  });
  const tags = make("button", "Tags");
  tags.type = "button";
  tags.id = `tags-${item.id}`;
  tags.setAttribute("aria-label", `Change the tags of ${name}`);
  tags.addEventListener("click", () => {
    left.append(tagForm(item));
    tags.disabled = true;
    left.querySelector("form input").focus();
  });
  const summary = make("button", "Summary");
  summary.type = "button";
  summary.id = `summary-${item.id}`;
  summary.setAttribute("aria-label", `Summarise ${name}`);
  summary.addEventListener("click", () => attempt(() => summarize(item)));
  const buttons = make("div", undefined, "buttons");
  buttons.append(summary, tags, button);
  const more = make("details");
  more.id = `more-${item.id}`;
  const opener = make("summary", "More");
  opener.id = `menu-${item.id}`;
  opener.setAttribute("aria-label", `More for ${name}`);
  more.append(opener, buttons);
  row.append(left, more);
  return row;
}

function tagForm(item) {
  const form = make("form");
  const label = make("label", "Tags, with commas");
  const input = make("input");
  input.type = "text";
  input.value = (item.tags || []).join(", ");
  label.append(input);
  form.append(label, make("button", "Save"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = input.value.split(",").map((tag) => tag.trim()).filter(Boolean);
    const body = {
      add: wanted.filter((tag) => !(item.tags || []).includes(tag)),
      remove: (item.tags || []).filter((tag) => !wanted.includes(tag)),
    };
    attempt(async () => {
      const path = `v1/documents/${encodeURIComponent(item.id)}`;
      await call(path, { method: "PATCH", body: JSON.stringify(body) });
      await loadDocuments();
      element(`tags-${item.id}`)?.focus();
    });
  });
  return form;
}

const reading = new Map(); // files that are not read yet, with what is done of each

function uploadRow(file) {
  const row = make("li");
  const bar = make("progress");
  const state = make("span", "waiting");
  bar.max = 1;
  bar.value = 0;
  bar.setAttribute("aria-label", `Reading ${file.name}`);
  row.append(make("span", file.name), bar, state);
  element("uploads").append(row);
  reading.set(row, `${file.name} (waiting)`);
  return { file, row, bar, state };
}

async function upload({ file, row, bar, state }) {
  state.textContent = "sending";
  reading.set(row, `${file.name} (sending)`);
  const form = new FormData();
  form.append("file", file);
  let problem = "";
  try {
    const headers = { Accept: "text/event-stream" };
    const response = await call("v1/documents", { method: "POST", body: form, headers });
    state.textContent = "reading";
    reading.set(row, `${file.name} (reading)`);
    for await (const [name, value] of events(response)) {
      if (name === "progress") {
        bar.value = value.total_characters ? value.characters / value.total_characters : 1;
        state.textContent = `${Math.round(100 * bar.value)}%`;
        reading.set(row, `${file.name} (${state.textContent})`);
      } else if (name === "document" && value.error) problem = value.error;
      else if (name === "error") problem = value.error.message;
    }
  } catch (error) {
    problem = error.message;
  }
  bar.remove();
  reading.delete(row);
  state.textContent = problem || "read";
  if (!problem) setTimeout(() => row.remove(), 5000);
  await loadDocuments();
}

const uploadAll = (files) => attempt(async () => {
  for (const row of files.map(uploadRow)) await upload(row);
});

// questions

async function ask(question) {
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
  const body = { question, session };
  if (selected.size) body.documents = [...selected];
  if (element("writer").checked) body.writer = true;
  try {
    const answer = await json("v1/ask", { method: "POST", body: JSON.stringify(body) });
    turn.replaceChildren(...turnNodes(answer, body.documents));
    if (unread.length) turn.append(make("p", `When this was asked, ${unread.join(" and ")} ${unread.length > 1 ? "were" : "was"} still being read: ask again for what is in there.`, "state"));
  } catch (error) {
    state.textContent = error.message;
  }
  await loadSessions();
  turn.scrollIntoView({ block: "nearest" });
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
      const body = JSON.stringify({ question, ...(asked ? { documents: asked } : {}) });
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
  for (const sentence of writing.sentences) {
    const node = make("span", sentence.text, ...(sentence.supported ? [] : ["unsupported"]));
    text.append(node, sentence.supported ? " " : ` [unsupported: ${sentence.problem}] `);
  }
  const sources = writing.sources.map((source) => {
    const node = citationNode(source);
    node.prepend(`[${source.number}] `);
    return node;
  });
  return [make("p", head, "state"), ...(writing.sentences.length ? [text] : []), ...sources];
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

// the document at a quote

let opener = null;

async function open(handle, button = null) {
  const passage = await json(`v1/passages/${encodeURIComponent(handle)}?around=10000`);
  const info = await json(`v1/documents/${encodeURIComponent(passage.document)}`);
  opener = button;
  const mark = make("mark", passage.quote);
  const isPdf = passage.source.toLowerCase().endsWith(".pdf");
  const tidy = isPdf ? joined : (text) => text;
  element("viewer-text").replaceChildren(tidy(passage.before), mark, tidy(passage.after));
  element("spot").style.left = `${(97 * passage.start) / Math.max(1, info.characters)}%`;
  show(passage.title, place(passage, false));
  const text = element("viewer-text");
  text.scrollTop = mark.offsetTop - text.offsetTop - text.clientHeight / 3;
  if (isPdf && passage.page !== null) await openPage({ handle, quote: passage.quote, title: passage.title });
}

const FIRST_CHARACTERS = 200000;

// A document from its beginning, as its title in the list opens it.
async function openDocument(item, button) {
  const part = await json(`v1/documents/${encodeURIComponent(item.id)}/text?end=${FIRST_CHARACTERS}`);
  opener = button;
  const isPdf = item.source.toLowerCase().endsWith(".pdf");
  const rest = part.end < part.characters ? `\n\n(${part.end.toLocaleString("en")} of ${part.characters.toLocaleString("en")} characters)` : "";
  element("viewer-text").replaceChildren((isPdf ? joined(part.text) : part.text) + rest);
  element("spot").style.left = "0%";
  show(part.title, [item.author, item.date].filter(Boolean).join(", "));
  element("viewer-text").scrollTop = 0;
  if (isPdf) await openPage({ handle: `${item.id}:0-1`, quote: "", title: part.title, number: 1 });
}

function show(title, where) {
  element("viewer-title").textContent = title;
  element("viewer-place").textContent = where;
  element("viewer-problem").textContent = "";
  drawn = wanted = null;
  showAs("text");
  element("viewer").hidden = false;
  document.querySelector(".columns").classList.add("open");
  element("viewer-title").focus({ preventScroll: false });
  bringViewerUp();
}

// Below the answers on a narrow screen.
function bringViewerUp() {
  if (matchMedia("(max-width: 60rem)").matches) element("viewer").scrollIntoView({ behavior: "instant" });
}

let drawn = null; // the page that is shown: its handle, quote, title and number
let wanted = null; // what was opened last: another answer may come later

async function openPage(page) {
  wanted = page;
  const shownWidth = Math.max(576, element("viewer").clientWidth); // 36rem, as in page.css
  const wide = Math.min(2400, Math.round(shownWidth * (window.devicePixelRatio || 1)));
  element("viewer-problem").textContent = "Drawing the page ...";
  const number = (page.number ? `&page=${page.number}` : "") + (page.quote ? "" : "&plain=1");
  let image;
  try {
    image = await json(`v1/pages/${encodeURIComponent(page.handle)}?width=${wide}${number}`);
  } catch (error) {
    if (wanted === page) element("viewer-problem").textContent = `Its page cannot be shown: ${error.message}`;
    return;
  }
  if (wanted !== page) return;
  drawn = { ...page, number: image.page };
  const marked = image.boxes.length ? `, with the quote in yellow: ${page.quote}` : "";
  element("viewer-image").src = `data:image/png;base64,${image.png}`;
  element("viewer-image").alt = `Page ${image.page} of ${page.title}${marked}`;
  element("viewer-problem").textContent = `Page ${image.page} of ${image.pages}`;
  element("page-before").disabled = image.page <= 1;
  element("page-after").disabled = image.page >= image.pages;
  showAs("page");
  await element("viewer-image").decode().catch(() => null);
  const region = element("viewer-page");
  const [, top, right] = image.boxes[0] || [0, 0, 0];
  region.scrollTop = top * element("viewer-image").clientHeight - region.clientHeight / 3;
  region.scrollLeft = right * element("viewer-image").clientWidth - 0.9 * region.clientWidth;
  bringViewerUp();
}

function showAs(kind) {
  element("viewer-pages").hidden = drawn === null;
  element("viewer-page").hidden = kind !== "page";
  element("viewer-text").hidden = kind === "page";
  element("as-text").setAttribute("aria-pressed", kind !== "page");
}

// A PDF's lines end where its column does: a paragraph's are shown as one.
const joined = (text) => text.replace(/([^\n]{30,})\n(?=[a-z(,;])/g, "$1 ");

function close() {
  element("viewer").hidden = true;
  document.querySelector(".columns").classList.remove("open");
  (opener || element("question")).focus();
}

// conversations

async function loadSessions() {
  const names = (await json("v1/sessions")).sessions.map((item) => item.name);
  const options = ["", ...names].map((name) => {
    const option = make("option", name || "new");
    option.value = name;
    return option;
  });
  element("sessions").replaceChildren(...options);
  element("sessions").value = names.includes(session) ? session : "";
}

async function openSession(name) {
  session = name;
  const turns = name ? (await json(`v1/sessions/${encodeURIComponent(name)}`)).turns : [];
  element("empty").hidden = turns.length > 0;
  element("turns").replaceChildren(...turns.map((turn) => {
    const row = make("li");
    row.append(...turnNodes(turn));
    return row;
  }));
}

async function load() {
  await loadDocuments();
  await loadSessions();
  const { writer } = await json("v1/writer");
  element("writer-choice").hidden = !writer;
  if (writer) element("writer-name").textContent = `Let ${writer.model || "the writer"} at ${writer.host} write; it gets the question and retrieved sentences`;
  element("token-form").hidden = true;
  if (location.hash.includes(":")) await open(decodeURIComponent(location.hash.slice(1)));
}

element("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = element("question").value.trim();
  if (!question) return;
  element("question").value = "";
  attempt(() => ask(question));
});
element("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token.value = element("token").value.trim();
  sessionStorage.setItem("token", token.value);
  attempt(load);
});
element("files").addEventListener("change", (event) => {
  uploadAll([...event.target.files]).then(() => { event.target.value = ""; });
});
for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault();
    element("drop").classList.toggle("over", name === "dragover");
    if (name === "drop") uploadAll([...event.dataTransfer.files]);
  });
}
element("filter").addEventListener("input", showDocuments);
element("sessions").addEventListener("change", (event) => attempt(() => openSession(event.target.value)));
element("close").addEventListener("click", close);
element("documents").addEventListener("keydown", moveInList);
element("documents").addEventListener("focusin", (event) => rove(event.target.closest("#documents li")));
element("page-before").addEventListener("click", () => attempt(() => openPage({ ...drawn, number: drawn.number - 1 })));
element("page-after").addEventListener("click", () => attempt(() => openPage({ ...drawn, number: drawn.number + 1 })));
element("as-text").addEventListener("click", () => showAs(element("viewer-page").hidden ? "page" : "text"));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !element("viewer").hidden) close();
});
window.addEventListener("hashchange", () => {
  if (location.hash.includes(":")) attempt(() => open(decodeURIComponent(location.hash.slice(1))));
});
attempt(load);
