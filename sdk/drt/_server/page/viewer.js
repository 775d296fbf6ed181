// A document at a quote: its text, or the page of a PDF with the quote drawn.
"use strict";

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
