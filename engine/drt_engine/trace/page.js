"use strict";
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const now = document.querySelector(".now");
  const light = (key, on) => all("[data-k]").forEach((one) => {
    if (one.dataset.k === key) one.classList.toggle("lit", on);
  });
  const tell = (token) => {
    if (now && token.dataset.says) now.textContent = token.dataset.says;
  };
  for (const one of all("[data-k]")) {
    one.addEventListener("mouseenter", () => { light(one.dataset.k, true); tell(one); });
    one.addEventListener("mouseleave", () => light(one.dataset.k, false));
    one.addEventListener("focusin", () => { light(one.dataset.k, true); tell(one); });
    one.addEventListener("focusout", () => light(one.dataset.k, false));
  }
  for (const line of all("[data-tokens]")) {
    const tokens = [...line.querySelectorAll(".t")];
    if (tokens.length) tokens[0].tabIndex = 0;
    line.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const to = tokens[tokens.indexOf(document.activeElement) + step];
      if (!step || !to) return;
      event.preventDefault();
      document.activeElement.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    });
  }
  for (const link of all(".badges a")) {
    link.addEventListener("click", () => {
      const card = document.querySelector(link.getAttribute("href"));
      if (card) { card.open = true; card.querySelector("summary").focus(); }
    });
  }
  let shut = [];
  addEventListener("beforeprint", () => {
    shut = all("details:not([open])");
    shut.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => shut.forEach((one) => { one.open = false; }));
})();
