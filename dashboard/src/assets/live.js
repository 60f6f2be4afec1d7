// Refreshes the parts of a page that change, and shows events as they come. Every page works without it.
"use strict";
(() => {
  const KEY = "tower-redlock-refresh";
  const TIMEOUT = 10000;
  const say = (id, text) => { const place = document.getElementById(id); if (place) place.textContent = text; };

  // A second click must not do it twice.
  for (const form of document.querySelectorAll("form.confirm")) {
    form.addEventListener("submit", () => setTimeout(() => { form.querySelector("#confirm").disabled = true; }));
  }

  const select = document.getElementById("refresh");
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
  const isSelected = (region) => {
    const selection = getSelection();
    return selection && !selection.isCollapsed && region.contains(selection.anchorNode);
  };
  const swap = (fresh) => {
    let found = 0;
    for (const old of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(old.id);
      if (!next) continue;
      found += 1;
      if (next.outerHTML === old.outerHTML || isSelected(old)) continue;
      const focused = old.contains(document.activeElement) ? describe(document.activeElement) : null;
      const opened = [...old.querySelectorAll("details[open]")].map((place) => place.id);
      for (const id of opened) next.querySelector("#" + CSS.escape(id))?.setAttribute("open", "");
      if (next.outerHTML === old.outerHTML) continue;
      const scrolled = [...old.querySelectorAll(".scroll")].map((place) => [place.id, place.scrollLeft]);
      old.replaceWith(document.adoptNode(next));
      for (const [id, left] of scrolled) {
        const place = document.getElementById(id);
        if (place) place.scrollLeft = left;
      }
      if (focused) next.querySelector(focused)?.focus({ preventScroll: true });
    }
    if (found === 0) throw new Error("another page came in its place");
  };

  const hasLive = document.querySelector("[data-live]") !== null;
  let timer = 0;
  let failures = 0;
  const later = () => {
    clearTimeout(timer);
    const seconds = Number(select.value);
    if (hasLive && seconds > 0) timer = setTimeout(refresh, seconds * 1000);
  };
  const refresh = async () => {
    if (document.hidden) return later();
    try {
      const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) });
      if (!answer.ok) throw new Error(`it answered ${answer.status}`);
      if (answer.redirected) throw new Error("it was redirected");
      swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
      failures = 0;
      say("live-state", "");
    } catch (error) {
      failures += 1;
      say("live-state", `This page is out of date: refreshing failed ${failures} times in a row (${error.message}).`);
    }
    later();
  };
  // In the address, it would come first again.
  const readdress = (text) => text.replace(/([?&]refresh=)[^&#]*/, "$1" + select.value);
  select.addEventListener("change", () => {
    save(select.value);
    history.replaceState(null, "", location.pathname + readdress(location.search));
    for (const link of document.querySelectorAll("a[href*='refresh=']")) link.setAttribute("href", readdress(link.getAttribute("href")));
    for (const field of document.querySelectorAll("input[type=hidden][name=refresh]")) field.value = select.value;
    later();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && timer) { clearTimeout(timer); refresh(); } });
  later();

  const list = document.getElementById("event-list");
  if (!list) return;
  const MAX = 1000;
  let last = list.dataset.last;
  let warning = 0;
  const show = (event) => {
    const row = document.createElement("li");
    row.dataset.event = event.event;
    row.className = event.bad ? "bad" : "good";
    const time = document.createElement("time");
    if (event.at) {
      time.dateTime = event.at;
      time.textContent = event.at.slice(0, 19).replace("T", " ") + " UTC";
    }
    const kind = document.createElement("b");
    kind.textContent = event.event.replaceAll("_", " ");
    const text = document.createElement("bdi");
    text.textContent = event.text;
    row.append(time, " ", kind, " ", text);
    list.prepend(row);
    document.getElementById("no-events")?.remove();
    while (list.childElementCount > MAX) list.lastElementChild.remove();
  };
  // A browser opens few connections to a server: a page that is hidden needs none.
  let source = null;
  let again = 0;
  const close = () => { clearTimeout(warning); clearTimeout(again); source?.close(); source = null; };
  const follow = () => {
    close();
    if (document.hidden) return;
    const opened = new EventSource("api/events/stream?after=" + encodeURIComponent(last));
    source = opened;
    opened.addEventListener("message", (message) => {
      if (message.lastEventId) last = message.lastEventId;
      show(JSON.parse(message.data));
    });
    opened.addEventListener("open", () => { clearTimeout(warning); say("stream-state", ""); });
    opened.addEventListener("error", () => {
      // The server ends each stream after a while, and the next one begins at once.
      clearTimeout(warning);
      warning = setTimeout(() => say("stream-state", "No new events: the connection could not be opened again so far."), 4000);
      // After an answer that is no stream, the browser does not try again.
      if (opened.readyState === EventSource.CLOSED) again = setTimeout(follow, 5000);
    });
  };
  document.addEventListener("visibilitychange", () => document.hidden ? close() : follow());
  follow();
})();
