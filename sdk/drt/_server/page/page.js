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
element("filter").addEventListener("input", () => attempt(showDocuments));
element("part").addEventListener("change", () => attempt(async () => {
  await loadPart();
  checkPages();
}));
element("part-all").addEventListener("click", () => attempt(askAll));
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
