package function

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/system/function/tasks"
)

var updateUsage = flag.Bool("update-usage", false, "write testdata/usage.json, and the table of docs/costs.md")

const (
	usageFile = "testdata/usage.json"
	usagePage = "../../../docs/costs.md"
	// usageMark is the line of the page behind which the test writes.
	usageMark = "<!-- What follows is written by: go test ./internal/system/function -run TheUsageOfAMessage -update-usage -->\n"
)

// usage is the usage of the services by messages and sweeps.
type usage struct {
	Cases []usageOf `json:"cases"`
	// Sweep and SweepAll are one sweep each of a system without messages.
	Sweep    counts `json:"sweep"`
	SweepAll counts `json:"sweep_all"`
}

// usageOf is one configuration of a stream, with the usage of one message until its effect was
// sent.
type usageOf struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Stream string `json:"stream"`
	Each   counts `json:"each_message"`
	// Metrics is how many metrics its functions report.
	Metrics int `json:"metrics"`
}

// counts is the usage of the services. Requests to queues include the ones with which Lambda
// receives and deletes messages.
type counts struct {
	API        float64 `json:"api_requests"`
	Ingest     float64 `json:"ingest_invocations"`
	Process    float64 `json:"process_invocations"`
	Publish    float64 `json:"publish_invocations"`
	Standard   float64 `json:"sqs_standard_requests"`
	FIFO       float64 `json:"sqs_fifo_requests"`
	WriteUnits float64 `json:"write_units"`
	ReadUnits  float64 `json:"read_units"`
	LogBytes   float64 `json:"log_bytes"`
}

// per returns the counts of one of n messages.
func (c counts) per(n float64) counts {
	return counts{c.API / n, c.Ingest / n, c.Process / n, c.Publish / n, c.Standard / n, c.FIFO / n, c.WriteUnits / n, c.ReadUnits / n, math.Round(c.LogBytes / n)}
}

// logTolerance is the part by which the bytes of a log line may differ from run to run: times and
// ages have more or fewer digits.
const logTolerance = 0.1

// TestTheUsageOfAMessage counts the usage of a message in the three functions, from its request
// until its effect was sent: requests to SQS, units of DynamoDB, invocations, and bytes of the
// log.
func TestTheUsageOfAMessage(t *testing.T) {
	var got usage
	for _, c := range usageCases() {
		got.Cases = append(got.Cases, measureCase(t, c))
	}
	got.Sweep, got.SweepAll = measureSweep(t, tasks.Sweep), measureSweep(t, tasks.SweepAll)
	if *updateUsage {
		text, err := json.MarshalIndent(got, "", "  ")
		if err == nil {
			err = os.WriteFile(usageFile, append(text, '\n'), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	bytesAlike := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".LogBytes" }, cmpopts.EquateApprox(logTolerance, 0))
	if d := cmp.Diff(storedUsage(t), got, bytesAlike); d != "" {
		t.Errorf("%s is not what is counted now, run it with -update-usage (-written +counted)\n%s", usageFile, d)
	}
}

// The page is compared with the stored counts, so the test runs without an emulator too.
func TestThePageOfCostsHasTheUsageOfAMessage(t *testing.T) {
	page := read(t, usagePage)
	before, _, ok := strings.Cut(page, usageMark)
	if !ok {
		t.Fatalf("%s has no line %s", usagePage, usageMark)
	}
	want := before + usageMark + storedUsage(t).page()
	if *updateUsage {
		if err := os.WriteFile(usagePage, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(page, want); d != "" {
		t.Errorf("%s does not have the numbers of %s, run it with -update-usage (-page +numbers)\n%s", usagePage, usageFile, d)
	}
}

func storedUsage(t *testing.T) (u usage) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, usageFile)), &u); err != nil {
		t.Fatal(err)
	}
	return u
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// page returns the end of the page about costs.
func (u usage) page() string {
	var b strings.Builder
	b.WriteString(`
## End to end

What a message uses of each service until its effect is sent, and what a sweep uses of a stack without messages. Multiply by the prices of your region. The time that functions run comes on top: it depends on your handler and your
destination. It was counted on emulators, not in an account. The requests with which Lambda receives and deletes messages count as one each for every batch; a unit that DynamoDB charges and DynamoDB Local does not report, for what is not found, is added.

| | ` + "key | token | sequence | a sweep | a sweep of all groups |\n|---|---|---|---|---|---|\n")
	row := func(name string, of func(counts) float64) {
		b.WriteString("| " + name)
		for _, c := range u.Cases {
			fmt.Fprintf(&b, " | %g", of(c.Each))
		}
		fmt.Fprintf(&b, " | %g | %g |\n", of(u.Sweep), of(u.SweepAll))
	}
	row("requests to API Gateway", func(c counts) float64 { return c.API })
	row("invocations of functions", func(c counts) float64 { return c.Ingest + c.Process + c.Publish })
	row("requests to FIFO queues", func(c counts) float64 { return c.FIFO })
	row("requests to standard queues", func(c counts) float64 { return c.Standard })
	row("write units", func(c counts) float64 { return c.WriteUnits })
	row("read units", func(c counts) float64 { return c.ReadUnits })
	row("bytes that the functions log", func(c counts) float64 { return c.LogBytes })
	b.WriteString("\n")
	for _, c := range u.Cases {
		fmt.Fprintf(&b, "- **%s**: %s; its stream reports %d metrics.\n", c.Name, c.Title, c.Metrics)
	}
	b.WriteString(`
Lambda itself logs some 600 bytes for an invocation. A metric that is reported in an hour is charged for it; each counts twice, for its stream and for the whole deployment. What an idle stack costs is [here](deploy.md#what-it-costs).

A caller that waits for the reply (` + "`Prefer: wait`" + `) keeps the ingest function running until it is there, and each look for it reads the table. A retried message costs its requests again.
`)
	return b.String()
}

// A usageCase is a configuration and its messages.
type usageCase struct {
	usageOf
	stream string
	batch  int
	// handler says that the process function has a handler in Go that keeps a state.
	handler bool
	header  func(i int) map[string]string // of a request, or nil for messages over SQS
}

func usageCases() []usageCase {
	return []usageCase{
		{
			usageOf: usageOf{Name: "key", Title: "admission `key`, over HTTP, naming no group, each message alone, forwarded to one destination", Stream: "{destinations: [shop]}"},
			stream:  "orders", batch: 1,
			header: func(i int) map[string]string { return map[string]string{"Idempotency-Key": fmt.Sprint("order-", i)} },
		},
		{
			usageOf: usageOf{Name: "token", Title: "admission `token`, over HTTP, a Go handler with state, each message alone in a new group that it names, one effect", Stream: "{admission: token, destinations: [shop]}"},
			stream:  "payments", batch: 1, handler: true,
			header: func(i int) map[string]string {
				return map[string]string{"Idempotency-Key": fmt.Sprint("payment-", i), "Once-Group": fmt.Sprint("customer-", i)}
			},
		},
		{
			usageOf: usageOf{Name: "sequence", Title: "admission `sequence`, over the FIFO queue, in batches of ten of one group, forwarded to one destination", Stream: "{admission: sequence, destinations: [shop]}"},
			stream:  "chat", batch: 10,
		},
	}
}

// usageMessages is how many messages of a case are counted.
const usageMessages = 40

// measureCase sends messages one batch after the other, each when the one before is done.
func measureCase(t *testing.T, c usageCase) usageOf {
	t.Helper()
	m := newMeasured(t, c.stream, c.Stream, c.handler)
	for i := 0; i < usageMessages; i += c.batch {
		if c.header != nil {
			m.post(c.stream, c.header(i))
		} else {
			m.send(c.stream, i, c.batch)
		}
		m.settle()
	}
	if got := len(m.hook.wait(t, usageMessages)["shop"]); got != usageMessages {
		t.Fatalf("%d effects, want %d", got, usageMessages)
	}
	out := c.usageOf
	out.Each = m.total.per(usageMessages)
	out.Metrics = len(m.metrics())
	return out
}

// measureSweep counts one sweep of empty tables.
func measureSweep(t *testing.T, task string) counts {
	t.Helper()
	m := newMeasured(t, "orders", "{}", false)
	m.invoke(Process, tasks.Task{Once: task})
	return m.total.per(1)
}
