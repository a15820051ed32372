package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/effectively-once/once/client"
)

// A lambdaHandler is a handler as a Lambda function: its runtime, the name of the handler, and its
// files by their paths in the archive, or whole folders.
type lambdaHandler struct {
	runtime types.Runtime
	handler string
	files   map[string]string
	command []string // makes the files
}

// lambdaHandlers are handlers of a stock, by the names of their streams.
func lambdaHandlers() map[string]lambdaHandler {
	return map[string]lambdaHandler{
		"python": {runtime: types.RuntimePython313, handler: "stock.lambda_handler", files: map[string]string{
			"once_handler": "../handlers/python/src/once_handler", "stock.py": "testdata/handlers/stock.py",
		}},
		"typescript": {runtime: types.RuntimeNodejs22x, handler: "stock.handler", command: []string{"../handlers/typescript/build.sh"}, files: map[string]string{
			"node_modules/@effectively-once/handler/dist": "../handlers/typescript/dist", "node_modules/@effectively-once/handler/package.json": "../handlers/typescript/package.json",
			"stock.mjs": "testdata/handlers/stock.mjs",
		}},
	}
}

// The stock of each group: what is delivered, and how many orders take one piece each.
const (
	stockDelivered = 100
	stockOrders    = 10
)

func TestLambdaHandlersChangeEachStockOnceWhileTheFunctionsAreKilled(t *testing.T) {
	random := newRandom(t)
	r := newReceiver(t, 0.1)
	handlers := lambdaHandlers()
	text := "streams:\n" +
		"  python: {destinations: [warehouse], retry: {first: 100ms, max: 1s}}\n  typescript: {destinations: [warehouse], retry: {first: 100ms, max: 1s}}\n" +
		"destinations:\n  warehouse: {webhook: \"" + r.url + "\", secret: \"env:E2E_WEBHOOK_SECRET\"}\nhandlers:\n"
	for stream, h := range handlers {
		text += "  " + stream + ": {lambda: \"" + deployHandler(t, stream, h) + "\", timeout: 3s}\n"
	}
	d := newDeploymentOf(t, r, func(string) string { return text }, "--timeout", "6s", "--visibility", "7s", "--kill-every", "2s", "--duplicate", "0.2")
	must(t, d.start())
	groups := []string{"lamp", "chair"}
	var senders []*httpSender
	var load []stockOrder
	for _, stream := range slices.Sorted(maps.Keys(handlers)) {
		h := newHTTPSender(t, d.url(), stream)
		senders = append(senders, h)
		q := &sqsSender{client: d.sqs, stream: stream, urls: map[string]*string{"ingress": d.queue(t, "-ingress"), "ingress.fifo": d.queue(t, "-ingress.fifo")}}
		for _, group := range groups {
			h.deliver(t, group)
			load = append(load, orders(random, group, h, q)...)
		}
	}
	concurrently(t.Context(), t, 8, load, func(ctx context.Context, o stockOrder) error { return o.send(ctx) })
	done := d.peace(t)
	t.Logf("faults: %v", done)
	d.settleTables(t)
	for _, h := range senders {
		h.judge(t)
		for _, group := range groups {
			h.judgeStock(t, group)
			judgeStockEffects(t, r, h.stream, group)
		}
	}
	if _, problems := r.seen(); len(problems) > 0 {
		t.Errorf("problems of the receiver: %v, want none", problems)
	}
}

// deployHandler makes a function on the emulator, and returns its name.
func deployHandler(t *testing.T, stream string, h lambdaHandler) string {
	t.Helper()
	endpoint := os.Getenv("AWS_ENDPOINT_URL_LAMBDA")
	if endpoint == "" {
		t.Skip("AWS_ENDPOINT_URL_LAMBDA is not set: localstack/aws.sh run starts what the functions need")
	}
	if len(h.command) > 0 {
		if out, err := exec.CommandContext(t.Context(), h.command[0], h.command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", h.command, err, out)
		}
	}
	c := lambda.NewFromConfig(aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), BaseEndpoint: &endpoint})
	name := fmt.Sprintf("e2e-%s-%d", stream, rand.Uint32())
	_, err := c.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: &name, Runtime: h.runtime, Handler: &h.handler, Role: aws.String("arn:aws:iam::000000000000:role/handler"), Code: &types.FunctionCode{ZipFile: h.archive(t)}, Timeout: aws.Int32(5),
	})
	must(t, err)
	t.Cleanup(func() {
		_, err := c.DeleteFunction(context.WithoutCancel(t.Context()), &lambda.DeleteFunctionInput{FunctionName: &name})
		must(t, err)
	})
	return name
}

// archive packs the files of a handler.
func (h lambdaHandler) archive(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	add := func(name, file string) {
		data, err := os.ReadFile(file)
		must(t, err)
		w, err := z.Create(name)
		must(t, err)
		_, err = w.Write(data)
		must(t, err)
	}
	for name, source := range h.files {
		if info, err := os.Stat(source); err == nil && !info.IsDir() {
			add(name, source)
			continue
		}
		must(t, fs.WalkDir(os.DirFS(source), ".", func(file string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && !strings.Contains(file, "__pycache__") {
				add(path.Join(name, file), path.Join(source, file))
			}
			return err
		}))
	}
	must(t, z.Close())
	return out.Bytes()
}

// deliver brings pieces into the stock of a group, and waits for the handler's reply.
func (h *httpSender) deliver(t *testing.T, group string) {
	t.Helper()
	h.change(t, "delivery", group, fmt.Sprintf(`{"Add":%d}`, stockDelivered), fmt.Sprintf(`{"OnHand":%d}`, stockDelivered))
}

// change sends a message until there is a reply, and compares it.
func (h *httpSender) change(t *testing.T, key, group, body, want string) {
	t.Helper()
	m := client.Message{Stream: h.stream, Key: key + "-" + group, Group: group, ContentType: "application/json", Body: []byte(body), Wait: 5 * time.Second}
	var got client.Receipt
	await(t, "the reply to "+m.Key+" of "+h.stream, func() (_ bool, err error) {
		got, err = h.client.Send(t.Context(), m)
		return got.Reply != nil, err
	})
	if got.Reply.Status != 200 || string(got.Reply.Body) != want {
		t.Errorf("%s/%s: the reply is %d %s, want 200 %s", h.stream, group, got.Reply.Status, got.Reply.Body, want)
	}
}

// A stockOrder is one copy of an order, and the way it is sent.
type stockOrder struct {
	message sent
	http    *httpSender
	sqs     *sqsSender // if it is sent by SQS
}

func (o stockOrder) send(ctx context.Context) error {
	if o.sqs == nil {
		return o.http.send(ctx, o.message)
	}
	return o.sqs.sendBatch(ctx, []sent{o.message})
}

// orders returns three copies of each order of a group. A handler fails at the first try of some.
func orders(random *rand.Rand, group string, h *httpSender, q *sqsSender) []stockOrder {
	var list []sent
	for i := range stockOrders {
		m := sent{id: fmt.Sprintf("order-%s-%d", group, i), group: group, contentType: "application/json", body: []byte(`{"Take":1}`)}
		if i%10 == 0 {
			m.headers = map[string]string{"flaky": "1"}
		}
		list = append(list, m)
	}
	var out []stockOrder
	for i, m := range copies(random, list, 3) {
		o := stockOrder{message: m, http: h}
		if i%2 == 0 {
			o.sqs = q
		}
		out = append(out, o)
	}
	return out
}

// judgeStock asks for the stock of a group, and sends an order that the handler rejects.
func (h *httpSender) judgeStock(t *testing.T, group string) {
	t.Helper()
	h.change(t, "count", group, `{"Add":0}`, fmt.Sprintf(`{"OnHand":%d}`, stockDelivered-stockOrders))
	_, err := h.client.Send(t.Context(), client.Message{
		Stream: h.stream, Key: "too-much-" + group, Group: group, ContentType: "application/json", Body: []byte(`{"Take":1000}`), Wait: 20 * time.Second,
	})
	if err == nil || !strings.Contains(err.Error(), "not enough in stock") {
		t.Errorf("%s/%s: the answer to an order of too much is %v, want the handler's reject", h.stream, group, err)
	}
}

// judgeStockEffects checks that every change of a stock has one effect, whatever the number of its
// copies, and that effects have the numbers from 1 on.
func judgeStockEffects(t *testing.T, r *receiver, stream, group string) {
	t.Helper()
	const want = 1 + stockOrders + 1 // the delivery, the orders and the count
	bodies := map[uint64]string{}
	await(t, "the effects of "+stream+"/"+group, func() (bool, error) {
		posts, _ := r.seen()
		for _, p := range posts {
			if p.stream != stream || p.group != group {
				continue
			}
			if before, ok := bodies[p.number]; ok && before != string(p.body) {
				return false, fmt.Errorf("effect %d of %s/%s is %s and %s, want copies that are equal", p.number, stream, group, before, p.body)
			}
			bodies[p.number] = string(p.body)
		}
		return len(bodies) >= want, nil
	})
	numbers := slices.Sorted(maps.Keys(bodies))
	if len(numbers) != want || numbers[0] != 1 || numbers[len(numbers)-1] != want {
		t.Errorf("%s/%s: effects have the numbers %v, want 1 to %d", stream, group, numbers, want)
	}
	counts := map[string]int{}
	for _, body := range bodies {
		counts[strings.ReplaceAll(body, " ", "")]++
	}
	if got := counts[`{"Add":0,"Take":1}`]; got != stockOrders {
		t.Errorf("%s/%s: %d effects of orders, want %d: %v", stream, group, got, stockOrders, counts)
	}
}
