// A proxy that adds a bearer token to every request, for clients that cannot. Requests that name the proxy itself as host or
// origin name the server behind it instead; foreign ones are passed on as they are.
//
// Usage: add_token.mjs URL TOKEN   Prints its own URL, and runs until stdin ends.

import http from 'node:http';

const [target, token] = process.argv.slice(2);
const { hostname, port, host } = new URL(target);
const proxy = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const own = `127.0.0.1:${proxy.address().port}`;
  if (headers.host === own) headers.host = host;
  if (headers.origin === `http://${own}`) headers.origin = `http://${host}`;
  const forwarded = http.request({ hostname, port, method: request.method, path: request.url, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  forwarded.on('error', () => response.destroy());
  response.on('close', () => forwarded.destroy());
  request.pipe(forwarded);
});
proxy.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${proxy.address().port}`));
process.stdin.on('end', () => process.exit()).resume();
