// A whole life of messages with nothing but fetch; prints what came of it.
const API_URL = process.env.API_URL;
const headers = { 'Content-Type': 'application/json', 'X-API-KEY': process.env.SECRET_KEY };

async function call(method, path, body) {
  const response = await fetch(`${API_URL}${path}`, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body)
  });
  return { status: response.status, body: await response.json() };
}

const messages = [1, 2, 3].map((n) => ({ type: 'mail', payload: { n }, priority: n }));
const added = await call('POST', '/batch', messages);
const taken = await call('GET', '/message?timeout=30&ackTimeout=60');
const { id, lock_token } = taken.body;
const touched = await call('PUT', `/message/${id}/touch`, { lock_token, extend_seconds: 90 });
const nacked = await call('POST', `/message/${id}/nack`, { lock_token, errorReason: 'no' });
const waiting = await call('GET', '/main/messages?sortBy=priority&limit=1');
const late = await call('POST', '/ack', { id, lock_token });
const batch = await call('GET', '/messages/batch?count=10&timeout=30');
const acks = batch.body.messages.map((message) => ({
  id: message.id,
  lock_token: message.lock_token
}));
const acked = await call('POST', '/ack/batch', { acks });
const nothing = await call('GET', '/message');

console.log(JSON.stringify({ added, taken, touched, nacked, waiting, late, batch, acked, nothing }));
