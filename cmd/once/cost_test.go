package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/bill"
)

const (
	costsFile = "../../docs/costs.md"
	costsMark = "<!-- What follows is written by: go test ./cmd/once -run Page -update -->\n"
)

// TestThePageOfCostsHasTheTablesOfTheCommand keeps the end of docs/costs.md equal to what once cost
// prints; -update writes it.
func TestThePageOfCostsHasTheTablesOfTheCommand(t *testing.T) {
	stored, err := os.ReadFile(costsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := strings.Cut(string(stored), costsMark)
	if !ok {
		t.Fatal("the mark is gone")
	}
	page := before + costsMark + costsPage()
	if *update {
		if err := os.WriteFile(costsFile, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(string(stored), page); d != "" {
		t.Errorf("run go test ./cmd/once -run Page -update (-stored +command)\n%s", d)
	}
}

func costsPage() string {
	e := bill.Defaults()
	c := costsOf(bill.ListPrices(), e, 1_000_000)
	var b strings.Builder
	fmt.Fprintf(&b, `
## End to end

What a stack costs with everything that it uses, in dollars: list prices of %s, looked up until %s, without free tiers, discounts, taxes and data transfer. `+"`once cost`"+` prints these tables, for your own figures by its flags, and
with `+"`--json`"+` the source of each price. What destinations cost (SNS, EventBridge, other queues) is not included. No figure was measured in an account:

- Requests, units, invocations, metrics and the bytes that the functions log were counted on emulators, from the request of a message until its effect was sent (`+"`go test ./internal/system/function -run TheUsageOfAMessage`"+`). Requests with
  which Lambda receives and deletes messages are counted as one each for every batch. A unit that DynamoDB charges and DynamoDB Local does not report, for what is not found, is added.
- Items with ~ depend on estimates: %g, %g and %g ms for an invocation of ingest, process and publish, with %g MB; %g bytes that Lambda logs for each, and %g for a line of the API's log;
  %.0f receives a month on each idle queue, which are five long polls of 20 seconds at a time; %g GB of tables. Your handler and your destination decide how long an invocation takes.

%s
Free tiers of an account cover a part: ten alarms, three dashboards, a million requests to SQS, a million invocations. Fewer sweeps (`+"`sweepMinutes`, `sweepAllMinutes`"+`) save little.

Of a million messages:

`, c.Prices.Region, c.Prices.Date, e.IngestMS, e.ProcessMS, e.PublishMS, e.MemoryMB, e.LambdaLogBytes, e.AccessLogBytes, e.Polls, e.StoredGB,
		markdown(idleRows(c, "a month of 30 days without messages", "quantity", "price", "$")))
	for _, x := range c.Cases {
		fmt.Fprintf(&b, "- **%s**: %s\n", x.Name, x.Title)
	}
	b.WriteString("\n" + markdown(messageRows(c, messageCount(c.Messages)+", $")) + `
A metric that is reported in an hour is charged for it; each counts twice, for its stream and for the whole deployment. A stream whose messages fail, wait or are refused reports more of them.

A caller that waits for the reply (` + "`Prefer: wait`" + `) keeps the ingest function running until it is there, and each look for it reads the table: raise ` + "`--ingest-ms`" + `; the reads are not in the table above. A retried message costs its requests again.
`)
	return b.String()
}

// markdown returns rows as a table.
func markdown(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return b.String()
}

func TestCostPrintsAnIdleStackAndMessages(t *testing.T) {
	w := newWorld(t)
	run := func(want int, args ...string) string {
		t.Helper()
		if code := w.once(t.Context(), "", append([]string{"cost"}, args...)...); code != want {
			t.Errorf("once cost %v: exit %d, want %d\n%s", args, code, want, w.err.String())
		}
		return w.out.String()
	}
	out := run(exitOK)
	for _, want := range []string{"A MONTH WITHOUT MESSAGES", "A MILLION MESSAGES", "us-east-1", "CloudWatch: metrics of alarms", "Lambda: duration, GB-seconds ~"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var one, longer costs
	if err := json.Unmarshal([]byte(run(exitOK, "--json")), &one); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(run(exitOK, "--json", "--process-ms", "1050", "--messages", "2000000")), &longer); err != nil {
		t.Fatal(err)
	}
	if got, want := longer.Cases[0].Total, 2*one.Cases[0].Total+2_000_000*0.5*one.Prices.Prices["lambda_gb_second"].Price; got < want*0.999 || got > want*1.001 {
		t.Errorf("two million messages of a second more: %v, want %v", got, want)
	}
	// prices of a file
	for name, price := range one.Prices.Prices {
		price.Price = 0
		one.Prices.Prices[name] = price
	}
	text, err := json.Marshal(one.Prices)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "prices.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var free costs
	if err := json.Unmarshal([]byte(run(exitOK, "--json", "--prices", file)), &free); err != nil || free.Idle.Total != 0 || free.Cases[1].Total != 0 {
		t.Errorf("without a price: %+v, %v", free.Idle, err)
	}
	if err := os.WriteFile(file, []byte(`{"prices":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--prices " + file: "prices.alarm_month is missing", "--prices nope.json": "nope.json", "--messages 0": "--messages must be more than 0", "--memory -1": "--memory must be at least 0",
		"--sweep-minutes 0.5": "--sweep-minutes must be at least 1",
	} {
		if run(exitUsage, strings.Fields(args)...); !strings.Contains(w.err.String(), want) {
			t.Errorf("%s: %q", args, w.err.String())
		}
	}
}
