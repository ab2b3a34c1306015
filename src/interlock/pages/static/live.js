// Keeps a page up to date: each part that the server sends takes the place of the one with its id, and only what
// differs is touched; folds that are open, the focus and the place that is read stay.  Without this script the page
// is whole too: it is reloaded by hand.
"use strict";
(() => {
  const body = document.body;

  const tick = () => {
    const now = Date.now();
    for (const element of document.querySelectorAll("time[data-since]")) {
      const whole = Math.max(0, Math.floor((now - Date.parse(element.dataset.since)) / 1000));
      const hours = Math.floor(whole / 3600), minutes = Math.floor((whole % 3600) / 60), seconds = whole % 60;
      const two = (number) => String(number).padStart(2, "0");
      const text = hours ? `${hours} h ${two(minutes)} min` : minutes ? `${minutes} min ${two(seconds)} s` : `${seconds} s`;
      if (element.textContent !== text) element.textContent = text;
    }
  };

  const keep = {
    beforeNodeMorphed(old, fresh) {
      // What a person opened or closed stays so, whatever the server thinks of it.
      if (old.nodeName === "DETAILS" && fresh.nodeName === "DETAILS") fresh.toggleAttribute("open", old.open);
      // A running time is kept here.
      return !(old.nodeName === "TIME" && old.dataset.since && old.dataset.since === fresh.dataset?.since);
    },
  };

  const say = (live, words) => {
    const sign = document.getElementById("live");
    if (!sign) return;
    sign.dataset.state = live ? "on" : "off";
    sign.textContent = words;
  };

  if (body.dataset.stream) {
    // A browser has few connections for a server: a page that nobody sees holds none.
    let stream = null, last = "";
    const close = () => { stream?.close(); stream = null; };
    const open = () => {
      if (stream) return;
      const address = new URL(body.dataset.stream, location.href);
      if (last) address.searchParams.set("since", last);
      stream = new EventSource(address);
      stream.addEventListener("open", () => say(true, "live"));
      stream.addEventListener("error", (event) => {
        const refused = event.target.readyState === EventSource.CLOSED;
        say(false, refused ? "not live: signed out, or it is gone; load the page anew" : "not live: connecting again");
      });
      stream.addEventListener("gone", () => say(false, "not live: it is gone or damaged; load the page anew"));
      stream.addEventListener("back", () => say(true, "live"));
      stream.addEventListener("reload", () => location.reload());
      stream.addEventListener("part", (event) => {
        const part = JSON.parse(event.data);
        const old = document.getElementById(part.id);
        if (old) Idiomorph.morph(old, part.html, { morphStyle: "outerHTML", ignoreActiveValue: true, callbacks: keep });
        last = event.lastEventId || last;
        tick();
      });
    };
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    addEventListener("pagehide", close);
    addEventListener("pageshow", open);
    if (!document.hidden) open();
  }

  tick();
  setInterval(tick, 1000);

  // The filters of the board take effect as they are chosen; without the script the button does it.
  for (const form of document.querySelectorAll("form[data-prompt]")) {
    form.addEventListener("change", (event) => {
      if (event.target.nodeName === "SELECT") form.requestSubmit();
    });
  }
})();
