// Follows the live updates with fetch; prints the first one that tells of a new message.
const response = await fetch(`${process.env.API_URL}/events`, {
  headers: { 'X-API-KEY': process.env.SECRET_KEY }
});
console.log('listening');

let text = '';
const decoder = new TextDecoder();
for await (const chunk of response.body) {
  text += decoder.decode(chunk, { stream: true });
  const events = text.split('\n\n');
  text = events.pop();
  for (const event of events) {
    const lines = Object.fromEntries(event.split('\n').map((line) => line.split(/: ?(.*)/s)));
    if (lines.event === 'queue-update' && JSON.parse(lines.data).type === 'enqueue') {
      console.log(lines.data);
      process.exit(0);
    }
  }
}
