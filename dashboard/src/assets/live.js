// Refreshes the parts of a page that change, and shows events as they come. Every page works without it.
"use strict";
(() => {
  const KEY = "tower-redlock-refresh";
  const select = document.getElementById("refresh");
  const state = document.getElementById("live-state");
  if (!select || !state) return;

  const saved = () => {
    try { return localStorage.getItem(KEY); } catch { return null; }
  };
  const save = (value) => {
    try { localStorage.setItem(KEY, value); } catch { /* it holds for this page */ }
  };
  // The address comes first, so that a link shows what its sender saw.
  if (!new URLSearchParams(location.search).has("refresh")) select.value = saved() ?? "2";
  if (select.selectedIndex < 0) select.value = "0";

  const describe = (element) => element.id ? "#" + CSS.escape(element.id)
    : element.getAttribute("href") ? `a[href="${CSS.escape(element.getAttribute("href"))}"]` : null;

  const swap = (fresh) => {
    for (const old of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(old.id);
      if (!next || next.outerHTML === old.outerHTML) continue;
      const focused = old.contains(document.activeElement) ? describe(document.activeElement) : null;
      old.replaceWith(document.adoptNode(next));
      if (focused) next.querySelector(focused)?.focus({ preventScroll: true });
    }
  };

  let timer = 0;
  let failures = 0;
  const later = () => {
    clearTimeout(timer);
    const seconds = Number(select.value);
    if (seconds > 0) timer = setTimeout(refresh, seconds * 1000);
  };
  const refresh = async () => {
    if (document.hidden) return later();
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (!answer.ok) throw new Error(`it answered ${answer.status}`);
      swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
      failures = 0;
      state.textContent = "";
    } catch (error) {
      failures += 1;
      state.textContent = `This page is out of date: refreshing failed ${failures} times in a row (${error.message}).`;
    }
    later();
  };
  select.addEventListener("change", () => { save(select.value); later(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && Number(select.value) > 0) refresh(); });
  later();

  const list = document.getElementById("event-list");
  if (!list) return;
  const MAX = 1000;
  const source = new EventSource("api/events/stream?after=" + encodeURIComponent(list.dataset.last));
  source.addEventListener("message", (message) => {
    const event = JSON.parse(message.data);
    const row = document.createElement("li");
    row.dataset.event = event.event;
    row.className = event.bad ? "bad" : "good";
    const time = document.createElement("time");
    time.dateTime = event.at;
    time.textContent = event.at.slice(0, 19).replace("T", " ") + " UTC";
    const kind = document.createElement("b");
    kind.textContent = event.event.replaceAll("_", " ");
    const text = document.createElement("bdi");
    text.textContent = event.text;
    row.append(time, " ", kind, " ", text);
    list.prepend(row);
    document.getElementById("no-events")?.remove();
    while (list.childElementCount > MAX) list.lastElementChild.remove();
  });
  source.addEventListener("open", () => { state.textContent = ""; });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) state.textContent = "The stream of events has ended: reload the page.";
  });
})();
