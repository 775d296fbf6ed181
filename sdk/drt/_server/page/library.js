// The list of documents: what is asked of it, uploads, tags, removal.
"use strict";

let inPart = null; // ids of the documents that the filters leave, null without filters

// All documents that the filters leave, page by page.
async function listDocuments(filters) {
  const found = [];
  let after = null;
  do {
    const page = await json(`v1/documents?${new URLSearchParams({ ...filters, limit: 10000, ...(after && { after }) })}`);
    found.push(...page.documents);
    after = page.next;
  } while (after);
  return found;
}

async function loadDocuments() {
  documents = await listDocuments({});
  for (const id of selected) if (!documents.some((item) => item.id === id)) selected.delete(id);
  offer("part-tag", documents.flatMap((item) => item.tags || []));
  offer("part-type", documents.map((item) => suffix(item.source)).filter(Boolean));
  await loadPart();
  showRemoved((await json("v1/removed")).documents);
}

// filters: the part of the library that is listed and asked

const suffix = (source) => /\.[^./ ]+$/.exec(source.toLowerCase())?.[0];

// Choices of a filter, the chosen one among them though no document may have it any more.
function offer(id, names) {
  const chosen = element(id).value;
  const all = [...new Set(chosen ? [...names, chosen] : names)].sort();
  element(id).replaceChildren(new Option("any", ""), ...all.map((name) => new Option(name, name)));
  element(id).value = chosen;
}

const partValue = (name) => element(`part-${name}`).value.trim();

const PAGES = /^(\d+)\s*(?:-\s*(\d+))?$/;

function checkPages() {
  const text = partValue("pages");
  if (text && !PAGES.test(text)) throw new Error(`The pages are "${text}", expected a page or the first and the last: 3-5.`);
}

// The filters as options of a question.
function part() {
  const [tag, type, since, section] = ["tag", "type", "since", "section"].map(partValue);
  const pages = PAGES.exec(partValue("pages"));
  return {
    ...(tag && { tags: [tag] }), ...(type && { types: [type] }), ...(since && { since }), ...(section && { section }),
    ...(pages && { pages: [Number(pages[1]), Number(pages[2] || pages[1])] }),
  };
}

// The same in words.
function partWords({ tags, types, since, section, pages }) {
  return [
    tags && `tagged ${tags[0]}`, types && `of the format ${types[0]}`, since && `since ${since}`,
    section && `in sections that begin with "${section}"`, pages && `on pages ${pages[0]} to ${pages[1]}`,
  ].filter(Boolean).join(", ");
}

async function loadPart() {
  const { tags, types, since } = part();
  const filters = { ...(tags && { tag: tags[0] }), ...(types && { type: types[0] }), ...(since && { since }) };
  inPart = null;
  try {
    if (Object.keys(filters).length) {
      inPart = new Set((await listDocuments(filters)).map((item) => item.id));
    }
  } finally {
    showDocuments();
  }
}

function askAll() {
  for (const name of ["tag", "type", "since", "section", "pages"]) element(`part-${name}`).value = "";
  return loadPart();
}

function showDocuments() {
  const words = element("filter").value.toLowerCase();
  const named = (item) => `${item.title} ${item.source} ${(item.tags || []).join(" ")}`.toLowerCase();
  const shown = documents.filter((item) => named(item).includes(words) && (inPart?.has(item.id) ?? true));
  const focused = document.activeElement?.id;
  const opened = [...element("documents").querySelectorAll("details[open]")].map((node) => node.id);
  element("documents").replaceChildren(...shown.slice(0, 500).map(documentRow));
  for (const id of opened) if (element(id)) element(id).open = true;
  if (focused) element(focused)?.focus(); // rows are made anew, and a keyboard stays where it was
  rove(document.activeElement?.closest("#documents li"));
  const asked = [selected.size && `${selected.size} of them`, partWords(part())].filter(Boolean).join(", ");
  const chosen = asked && `, asking ${selected.size ? "" : "those "}${asked}`;
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
      await call(`v1/documents/${encodeURIComponent(item.id)}?undoable=1`, { method: "DELETE" });
      await loadDocuments();
      offerUndo(item);
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

// removed documents, which can come back until the library is compacted

function showRemoved(items) {
  element("removed").hidden = items.length === 0;
  element("removed-count").textContent = `Removed documents (${items.length})`;
  element("removed-documents").replaceChildren(...items.slice(0, 500).map((item) => {
    const row = make("li");
    row.append(make("span", item.title || item.source), undoButton(item, "Bring back"));
    return row;
  }));
  element("removed").dataset.ids = items.map((item) => item.id).join(" ");
}

function undoButton(item, label) {
  const button = make("button", label);
  const name = item.title || item.source;
  button.type = "button";
  button.setAttribute("aria-label", `Bring ${name} back`);
  button.addEventListener("click", () => attempt(async () => {
    await call(`v1/removed/${encodeURIComponent(item.id)}/undo`, { method: "POST" });
    await loadDocuments();
    element("undo").textContent = `${name} is back.`;
    (element(`open-${item.id}`) || element("filter")).focus();
  }));
  return button;
}

function offerUndo(item) {
  const name = item.title || item.source;
  if (!element("removed").dataset.ids.split(" ").includes(item.id)) {
    element("undo").textContent = `${name} is removed for good: the disk is full, or it was damaged.`;
    element("filter").focus();
    return;
  }
  const button = undoButton(item, "Undo");
  element("undo").replaceChildren(`Removed ${name}. `, button);
  button.focus();
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
        const [done, total] = value.pages ? [value.page, value.pages] : [value.characters, value.total_characters];
        bar.value = total ? done / total : 1;
        state.textContent = value.pages ? `page ${done} of ${total}` : `${Math.round(100 * bar.value)}%`;
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
