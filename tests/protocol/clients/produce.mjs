// A Node.js API server's way to add a message; prints the answer.
const response = await fetch(`${process.env.API_URL}/message`, {
  method: 'POST',
  headers: {
    'Content-Type': 'application/json',
    'X-API-KEY': process.env.SECRET_KEY
  },
  body: JSON.stringify({
    type: 'video_transcode',
    payload: { file: 'movie.mp4', quality: '1080p' },
    priority: 5
  })
});

console.log(JSON.stringify({ status: response.status, body: await response.json() }));
