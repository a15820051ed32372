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

let events = null;

// listen renews the page while it is visible. A browser makes few connections to a server, so
// pages in the background must not keep one.
function listen() {
  if (events || document.hidden) return;
  events = new EventSource(location.href);
  events.onopen = () => say("live");
  events.onmessage = (event) => {
    say("live");
    next = event.data;
    show();
  };
  events.onerror = () => {
    say("no connection; trying again");
    if (events.readyState !== EventSource.CLOSED) return; // the browser connects again
    rest();
    setTimeout(listen, 1000);
  };
}

// rest ends the connection.
function rest() {
  events?.close();
  events = null;
}

if (main) {
  listen();
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));
  document.addEventListener("selectionchange", show);
  main.addEventListener("focusout", () => setTimeout(show));
}
