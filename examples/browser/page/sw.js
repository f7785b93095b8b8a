// Keeps what was loaded, so that the page works without a network. The build writes the list.

const SHELL = /* the build */ { version: "", files: [], large: [] };
const CACHE = `page ${SHELL.version}`;
const MODELS = "models";

self.addEventListener("install", (event) => {
  event.waitUntil(install().then(() => self.skipWaiting()));
});

/** The first time the page itself loads what is large, and shows how far it is. */
async function install() {
  const update = (await caches.keys()).some((name) => name.startsWith("page "));
  const files = update ? [...SHELL.files, ...SHELL.large] : SHELL.files;
  const cache = await caches.open(CACHE);
  await cache.addAll(files.map((name) => new Request(name, { cache: "no-cache" })));
}

self.addEventListener("activate", (event) => {
  const old = (names) => names.filter((name) => name !== CACHE && name !== MODELS);
  event.waitUntil(
    caches
      .keys()
      .then((names) => Promise.all(old(names).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (url.origin !== self.location.origin || event.request.method !== "GET") {
    event.respondWith(Response.error());
  } else if (url.pathname.endsWith("/config.json")) {
    event.respondWith(newestConfig(event.request, url));
  } else {
    event.respondWith(kept(event, url));
  }
});

/** config.json of the server; without a network, the last one. */
async function newestConfig(request, url) {
  const cache = await caches.open(MODELS);
  let response;
  try {
    response = await fetch(request, { cache: "no-cache" });
  } catch {
    return (await cache.match(url.href)) ?? Response.error();
  }
  if (response.ok) await cache.put(url.href, response.clone());
  return response;
}

/** A file of the page or, with its checksum for a query, of a model: from the cache if there. */
async function kept(event, url) {
  const isModel = /^\?[0-9a-f]{64}$/u.test(url.search);
  const address = isModel ? url.href : url.origin + url.pathname;
  const isLarge = SHELL.large.some((name) => address === new URL(name, self.location).href);
  const cache = await caches.open(isModel ? MODELS : CACHE);
  const found = await cache.match(address);
  if (found) return found;
  const response = await fetch(event.request);
  if (isModel && response.ok) await forgetOtherVersions(cache, url);
  if ((isModel || isLarge) && response.ok) event.waitUntil(cache.put(address, response.clone()));
  return response;
}

async function forgetOtherVersions(cache, url) {
  for (const { url: address } of await cache.keys()) {
    const other = new URL(address);
    if (other.search && other.pathname === url.pathname) await cache.delete(address);
  }
}
