#!/usr/bin/env python3
"""PyTorch, unchanged, on a GPU: what it computes there is compared with its own CPU, and timed.

    partita remote run -- python3 bench/gpu/torch_checks.py check [PART...]
    partita remote run -- python3 bench/gpu/torch_checks.py times
    python3 bench/gpu/torch_checks.py times      beside CUDA's own runtime

`check` ends with 1 where something is wrong. Parts: tensors, algebra, networks, language. Nothing
is downloaded: weights are random."""
import copy
import statistics
import sys
import time

import torch

torch.backends.cudnn.allow_tf32 = False
torch.backends.cuda.matmul.allow_tf32 = False
checks = {}


def check(part, *cases):
    def note(function):
        for case in cases or ((),):
            checks.setdefault(part, []).append((" ".join([function.__name__, *map(str, case)]),
                                                lambda case=case: function(*case)))
        return function
    return note


def same(got, wanted, tolerance):
    """Both as the CPU has them; relative to the largest number that is wanted."""
    got, wanted = (one.detach().cpu().to(torch.complex128) for one in (got, wanted))
    assert got.shape == wanted.shape, (got.shape, wanted.shape)
    error = (got - wanted).abs().max().item() / max(1.0, wanted.abs().max().item())
    assert error <= tolerance, f"{error:.2g} is more than {tolerance}"


def both(function, *inputs, tolerance=1e-5):
    same(function(*(one.cuda() for one in inputs)), function(*inputs), tolerance)


# --- tensors ---

@check("tensors")
def arithmetic():
    both(lambda x: (x + 1) * 2, torch.arange(1000.0), tolerance=0)


@check("tensors")
def sums():
    both(lambda x: x.sum(0), torch.randn(1000, 1000), tolerance=1e-4)


@check("tensors")
def sorting():
    both(lambda x: x.sort()[0], torch.randn(100_000), tolerance=0)


@check("tensors")
def gathering():
    index = torch.randint(0, 1000, (500,))
    both(lambda x: x[index.to(x.device)], torch.randn(1000, 64), tolerance=0)


@check("tensors")
def selecting():
    numbers = torch.randint(0, 50, (1000,))
    both(lambda x: (x > 25).nonzero(), numbers, tolerance=0)
    both(lambda x: x.unique(), numbers, tolerance=0)
    both(lambda x: x.cumsum(0), numbers, tolerance=0)
    both(lambda x: x.float().topk(5)[0], numbers, tolerance=0)


@check("tensors")
def random_numbers():
    assert abs(torch.randn(1000, 1000, device="cuda").mean().item()) < 0.01


@check("tensors")
def streams_and_events():
    stream = torch.cuda.Stream()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(stream):
        begin.record()
        three = torch.ones(1 << 20, device="cuda") * 3
        end.record()
    stream.synchronize()
    assert begin.elapsed_time(end) > 0 and three.sum().item() == 3 << 20


@check("tensors")
def pinned_memory():
    here = torch.randn(1 << 16).pin_memory()
    there = here.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    same(there, here, 0)


@check("tensors")
def triton_by_compile():
    function = torch.compile(lambda a, b: (a * b + 1).relu().sum(0))
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    same(function(a.cuda(), b.cuda()), (a * b + 1).relu().sum(0), 1e-5)


# --- algebra ---

TYPES = ((torch.float32,), (torch.float64,), (torch.complex64,), (torch.complex128,))


def matrix(kind, n=48):
    return torch.randn(n, n, dtype=kind) + n * torch.eye(n, dtype=kind)


def near(kind):
    return 1e-9 if kind in (torch.float64, torch.complex128) else 1e-3


@check("algebra", (torch.float32, 1e-5), (torch.float64, 1e-13), (torch.bfloat16, 0.02),
       (torch.float16, 0.01), (torch.complex64, 1e-5))
def products(kind, tolerance):
    a, b = torch.randn(128, 256).to(kind), torch.randn(256, 192).to(kind)
    wide = kind if kind.is_complex or kind == torch.float64 else torch.float32
    same(a.cuda() @ b.cuda(), a.to(wide) @ b.to(wide), tolerance)
    a, b = torch.randn(8, 64, 32).to(kind), torch.randn(8, 32, 16).to(kind)
    same(torch.bmm(a.cuda(), b.cuda()), a.to(wide) @ b.to(wide), tolerance)


@check("algebra", *TYPES)
def solutions(kind):
    a, b = matrix(kind), torch.randn(48, 4, dtype=kind)
    for function in (torch.linalg.solve, lambda x, y: torch.linalg.lstsq(x, y).solution,
                     lambda x, y: torch.linalg.solve_triangular(x.triu(), y, upper=True),
                     lambda x, y: torch.cholesky_solve(y, torch.linalg.cholesky(x @ x.mH))):
        both(function, a, b, tolerance=near(kind))


@check("algebra", *TYPES)
def factors(kind):
    for function in (torch.linalg.inv, lambda x: torch.linalg.slogdet(x)[1],
                     lambda x: torch.linalg.cholesky(x @ x.mH),
                     lambda x: torch.linalg.qr(x)[1].abs(), torch.linalg.svdvals,
                     lambda x: torch.linalg.eigvalsh(x + x.mH),
                     lambda x: torch.linalg.eigvals(x).abs().sort()[0],
                     lambda x: torch.linalg.ldl_factor(x + x.mH)[0].diagonal()):
        both(function, matrix(kind), tolerance=near(kind))


@check("algebra", *TYPES)
def factors_of_many(kind):
    many = torch.stack([matrix(kind, 16) for _ in range(3)])
    for function in (torch.linalg.inv, lambda x: torch.linalg.cholesky(x @ x.mH),
                     torch.linalg.svdvals, lambda x: torch.linalg.eigvalsh(x + x.mH)):
        both(function, many, tolerance=near(kind))


@check("algebra")
def transforms():
    both(torch.fft.fft2, torch.randn(64, 128))
    both(lambda x: torch.fft.irfft(torch.fft.rfft(x)), torch.randn(64, 128))
    both(lambda x: torch.stft(x, 400, window=torch.hann_window(400).to(x.device),
                              return_complex=True), torch.randn(4000))


# --- networks ---

def gradients(module, data, device):
    module = copy.deepcopy(module).to(device)
    data = data.detach().clone().to(device).requires_grad_(True)
    out = module(data)
    out = out[0] if isinstance(out, tuple) else out
    (out * out).sum().backward()
    return [out, data.grad, *(weight.grad for weight in module.parameters())]


LAYERS = {
    "convolution": (lambda nn: nn.Conv2d(8, 16, 3, padding=1), (4, 8, 32, 32)),
    "groups": (lambda nn: nn.Conv2d(8, 16, 3, stride=2, groups=4), (4, 8, 33, 31)),
    "depthwise": (lambda nn: nn.Conv2d(16, 16, 3, groups=16), (2, 16, 16, 16)),
    "transposed": (lambda nn: nn.ConvTranspose2d(8, 4, 4, stride=2), (2, 8, 16, 16)),
    "one-dimensional": (lambda nn: nn.Conv1d(8, 16, 5), (2, 8, 100)),
    "three-dimensional": (lambda nn: nn.Conv3d(2, 4, 3), (1, 2, 8, 8, 8)),
    # Without a bias, whose gradient before a normalisation is rounding alone.
    "normalised": (lambda nn: nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8),
                                            nn.ReLU(), nn.MaxPool2d(2)), (8, 3, 32, 32)),
    "perceptron": (lambda nn: nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64),
                                            nn.Linear(64, 10)), (16, 32)),
    "LSTM": (lambda nn: nn.LSTM(16, 32, num_layers=2), (5, 3, 16)),
    "GRU": (lambda nn: nn.GRU(16, 32, bidirectional=True, batch_first=True), (3, 5, 16)),
    "attention": (lambda nn: nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0), (7, 2, 32)),
}


@check("networks", *((name,) for name in LAYERS))
def layer(name):
    make, shape = LAYERS[name]
    torch.manual_seed(1)
    module, data = make(torch.nn), torch.randn(*shape)
    for got, wanted in zip(gradients(module, data, "cuda"), gradients(module, data, "cpu")):
        same(got, wanted, 1e-4)


@check("networks")
def dropout_between_layers():
    torch.manual_seed(1)
    module = torch.nn.LSTM(8, 16, num_layers=2, dropout=0.5).cuda()
    one, other = (module(torch.ones(4, 2, 8, device="cuda"))[0] for _ in range(2))
    assert not torch.equal(one, other)


@check("networks")
def training():
    import torchvision

    def losses(device):
        torch.manual_seed(0)
        model = torchvision.models.resnet18(weights=None).to(device)
        step = torch.optim.SGD(model.parameters(), 0.01)
        data, wanted = torch.randn(4, 3, 64, 64).to(device), torch.arange(4).to(device)
        for _ in range(3):
            step.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(data), wanted)
            loss.backward()
            step.step()
            yield loss.item()
    same(torch.tensor(list(losses("cuda"))), torch.tensor(list(losses("cpu"))), 0.01)


@check("networks")
def captured():
    module, data = torch.nn.Conv2d(8, 16, 3).cuda().eval(), torch.randn(2, 8, 16, 16).cuda()
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                module(data)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = module(data)
        data.fill_(1)
        graph.replay()
        same(out, module.cpu()(torch.ones(2, 8, 16, 16)), 1e-4)


# --- language ---

@check("language", ("CUDNN_ATTENTION",), ("FLASH_ATTENTION",), ("EFFICIENT_ATTENTION",),
       ("MATH",))
def attention(backend):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    qkv = [torch.randn(2, 4, 128, 64).bfloat16() for _ in range(3)]
    function = torch.nn.functional.scaled_dot_product_attention
    wanted = [one.float().requires_grad_(True) for one in qkv]
    function(*wanted, is_causal=True).sum().backward()
    got = [one.cuda().requires_grad_(True) for one in qkv]
    with sdpa_kernel(getattr(SDPBackend, backend)):
        function(*got, is_causal=True).float().sum().backward()
    for one, other in zip(got, wanted):
        same(one.grad.float(), other.grad, 0.05)


@check("language")
def tokens():
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_head=4, n_embd=128, vocab_size=1000)).eval()
    prompt = torch.randint(0, 1000, (1, 8))
    how = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0}
    here = model.generate(prompt, **how)
    assert torch.equal(model.cuda().generate(prompt.cuda(), **how).cpu(), here)


# --- times ---

def timed(name, function, rounds=30):
    for _ in range(5):
        function()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - begin))
    print(f"{name}: {statistics.median(times):.3f} ms", flush=True)


def times():
    import torchvision
    from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel
    begin = time.perf_counter()
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    print(f"first use: {1000 * (time.perf_counter() - begin):.1f} ms", flush=True)
    with torch.no_grad():
        for name in ("alexnet", "vgg19", "resnet50"):
            model = getattr(torchvision.models, name)(weights=None).cuda().eval()
            for batch in (1, 8):
                data = torch.randn(batch, 3, 224, 224, device="cuda")
                timed(f"{name}, batch {batch}", lambda: model(data))
        data = torch.randn(1, 3, 224, 224)
        timed("resnet50, batch 1, from and to the host", lambda: model(data.cuda()).cpu())
        bert = BertModel(BertConfig()).cuda().eval().half()
        words = torch.randint(0, 30_000, (1, 128), device="cuda")
        timed("BERT base, 128 tokens, f16", lambda: bert(words))
        gpt = GPT2LMHeadModel(GPT2Config()).cuda().eval().half()
        how = {"max_new_tokens": 50, "min_new_tokens": 50, "do_sample": False, "pad_token_id": 0}
        timed("GPT-2, 50 tokens, f16", lambda: gpt.generate(words[:, :16], **how), 5)
    model = torchvision.models.resnet50(weights=None).cuda()
    step = torch.optim.SGD(model.parameters(), 0.01)
    data, wanted = torch.randn(32, 3, 224, 224).cuda(), torch.randint(0, 1000, (32,)).cuda()

    def train():
        step.zero_grad()
        torch.nn.functional.cross_entropy(model(data), wanted).backward()
        step.step()
    timed("resnet50, a step of training, batch 32", train, 15)


def main():
    if sys.argv[1:2] == ["times"]:
        times()
        return 0
    if sys.argv[1:2] != ["check"]:
        print(__doc__)
        return 2
    wrong = 0
    for part in sys.argv[2:] or checks:
        for name, function in checks[part]:
            torch.manual_seed(0)
            try:
                function()
                print(f"{part}: {name}: right", flush=True)
            except Exception as error:  # whatever it is, the others are tried
                wrong += 1
                text = " ".join(str(error).split())[:300]
                print(f"{part}: {name}: WRONG: {type(error).__name__}: {text}", flush=True)
    print(f"{wrong} wrong, PyTorch {torch.__version__}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
