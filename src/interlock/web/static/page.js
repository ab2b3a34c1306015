// Keeps a page up to date: the server sends its live part anew, and only what differs is touched, so that open folds,
// the focus and the place that is read stay.  Without this script the page is whole too: it is loaded anew by hand.
"use strict";
(() => {
  const same = (a, b) => a.nodeName === b.nodeName && (a.id || "") === (b.id || "");

  const morph = (old, fresh) => {
    if (!same(old, fresh)) return void old.replaceWith(fresh);
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    if (old.dataset.since && old.dataset.since === fresh.dataset.since) return; // a running time is kept here
    for (const { name } of [...old.attributes]) {
      // What a person opened or closed stays so, whatever the server thinks of it.
      if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      const theirs = name === "open" && old.nodeName === "DETAILS";
      if (!theirs && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    if (old === document.activeElement && "value" in old) return; // somebody types there
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      let found = at;
      while (found && !same(found, child)) found = found.nextSibling;
      if (!found) {
        old.insertBefore(child, at);
        continue;
      }
      while (at !== found) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
      }
      at = at.nextSibling;
      morph(found, child);
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  };

  const tick = () => {
    for (const element of document.querySelectorAll("time[data-since]")) {
      const whole = Math.max(0, Math.floor((Date.now() - Date.parse(element.dataset.since)) / 1000));
      const two = (number) => String(number).padStart(2, "0");
      const hours = Math.floor(whole / 3600), minutes = Math.floor((whole % 3600) / 60);
      const text = hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
      if (element.textContent !== text) element.textContent = text;
    }
  };

  const { stream: address, version } = document.body.dataset;
  if (address) {
    let stream = null, last = version;
    const sign = document.getElementById("sign");
    const say = (state, words) => {
      sign.dataset.state = state;
      sign.textContent = words;
    };
    const close = () => {
      stream?.close();
      stream = null;
    };
    const open = () => {
      if (stream) return;
      const from = new URL(address, location.href);
      from.searchParams.set("since", last);
      stream = new EventSource(from);
      stream.addEventListener("open", () => say("on", "live"));
      stream.addEventListener("error", (event) => {
        const refused = event.target.readyState === EventSource.CLOSED;
        say("off", refused ? "not live: signed out, or it is gone; load the page anew" : "not live: connecting again");
      });
      stream.addEventListener("part", (event) => {
        const made = new DOMParser().parseFromString(JSON.parse(event.data), "text/html").getElementById("live");
        morph(document.getElementById("live"), document.adoptNode(made));
        last = event.lastEventId;
        tick();
      });
    };
    // A browser has few connections for a server: a page that nobody sees holds none.
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    addEventListener("pagehide", close);
    addEventListener("pageshow", open);
    if (!document.hidden) open();
  }

  tick();
  setInterval(tick, 1000);
})();
