// Renews the content of a page whenever the server sends a new one. All texts in it were escaped by
// the server, and the page's policy runs no script from it.
"use strict";
const main = document.querySelector("main[data-live]");
const state = document.getElementById("state");
let next = null; // content that is not shown yet

function say(text) {
  if (state.textContent !== text) state.textContent = text;
}

// busy reports whether new content would take something from the reader: selected text, or a field.
function busy() {
  const selection = getSelection();
  const selects = !selection.isCollapsed && main.contains(selection.anchorNode);
  return selects || main.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
}

function show() {
  if (next === null || busy()) return;
  const focused = main.contains(document.activeElement) ? document.activeElement : null;
  const links = [...main.querySelectorAll("a, button, summary")];
  const at = links.indexOf(focused);
  const same = focused && (focused.id || focused.getAttribute("href"));
  const open = [...main.querySelectorAll("details[open]")].map((d) => d.id);
  main.innerHTML = next;
  next = null;
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (!focused) return;
  const now = [...main.querySelectorAll("a, button, summary")];
  const again = now.find((e) => same && (e.id || e.getAttribute("href")) === same) || now[at] || main;
  again.focus({ preventScroll: true });
}

function listen() {
  const events = new EventSource(location.href);
  events.onopen = () => say("live");
  events.onmessage = (event) => {
    say("live");
    next = event.data;
    show();
  };
  events.onerror = () => {
    say("no connection; trying again");
    if (events.readyState !== EventSource.CLOSED) return; // the browser connects again
    events.close();
    setTimeout(listen, 1000);
  };
}

if (main) {
  listen();
  document.addEventListener("selectionchange", show);
  main.addEventListener("focusout", () => setTimeout(show));
}
