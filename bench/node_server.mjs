// What people write first: node's http server in front of onnxruntime-node, for against_node.py.
//     node node_server.mjs MODEL PORT THREADS    (0: as many as onnxruntime-node takes by itself)
// POST /v2/models/m/infer with a JSON body of the Open Inference Protocol, or with an octet stream
// of one FP32 row.
import http from 'node:http';
import { createRequire } from 'node:module';

const ort = createRequire(process.cwd() + '/')('onnxruntime-node');
const [model, port, threads] = process.argv.slice(2);
const options = Number(threads) > 0 ? { intraOpNumThreads: Number(threads) } : {};
const session = await ort.InferenceSession.create(model, options);
const [input, output] = [session.inputNames[0], session.outputNames[0]];

async function answer(request, body) {
  const json = request.headers['content-type'] === 'application/json';
  const data = json ? Float32Array.from(JSON.parse(body).inputs[0].data)
    : new Float32Array(body.buffer.slice(body.byteOffset, body.byteOffset + body.length));
  const result = (await session.run({ [input]: new ort.Tensor('float32', data, [1, data.length]) }))[output];
  if (!json) return Buffer.from(result.data.buffer, result.data.byteOffset, result.data.byteLength);
  return JSON.stringify({ model_name: 'm', outputs: [{ name: output, datatype: 'FP32', shape: result.dims, data: Array.from(result.data) }] });
}

http.createServer((request, response) => {
  const pieces = [];
  request.on('data', (piece) => pieces.push(piece));
  request.on('end', async () => {
    try {
      response.end(await answer(request, Buffer.concat(pieces)));
    } catch (error) {
      response.statusCode = 400;
      response.end(String(error));
    }
  });
}).listen(Number(port), '127.0.0.1', () => console.log('listening'));
