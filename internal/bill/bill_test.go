package bill_test

import (
	"encoding/json"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/bill"
)

// flat are prices of one dollar for each unit.
func flat(t *testing.T) bill.Prices {
	t.Helper()
	p := bill.ListPrices()
	for name := range p.Prices {
		p.Prices[name] = bill.Price{Price: 1}
	}
	return p
}

// cost returns the cost of an item, or -1 if there is none.
func cost(b bill.Bill, item string) float64 {
	for _, i := range b.Items {
		if i.Item == item {
			return i.Cost
		}
	}
	return -1
}

func TestABillIsUsageTimesPrices(t *testing.T) {
	each := bill.Counts{API: 1, Ingest: 1, Process: 2, Publish: 3, Standard: 4, FIFO: 5, WriteUnits: 6, ReadUnits: 7, LogBytes: 100}
	e := bill.Estimates{IngestMS: 1000, ProcessMS: 500, PublishMS: 100, MemoryMB: 512, LambdaLogBytes: 10, AccessLogBytes: 40}
	b := bill.Messages(bill.Case{Each: each}, 2_000_000, flat(t), e)
	sum := 0.0
	for item, want := range map[string]float64{
		"API Gateway, HTTP API: million requests":           2,
		"Lambda: million invocations":                       12,
		"Lambda: duration, GB-seconds":                      2_000_000 * 2.3 / 2,
		"SQS: million requests to standard queues":          8,
		"SQS: million requests to FIFO queues":              10,
		"DynamoDB: million write units":                     12,
		"DynamoDB: million read units":                      14,
		"CloudWatch: GB of logs, of the functions":          0.2,
		"CloudWatch: GB of logs, of Lambda and API Gateway": 0.2,
	} {
		if got := cost(b, item); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %v, want %v", item, got, want)
		}
		sum += want
	}
	if math.Abs(b.Total-sum) > 1e-6 || len(b.Items) != 9 {
		t.Errorf("total %v of %d items, want %v", b.Total, len(b.Items), sum)
	}
	e.REST = true
	if got := cost(bill.Messages(bill.Case{Each: each}, 1_000_000, flat(t), e), "API Gateway, REST API: million requests"); got != 1 {
		t.Errorf("a REST API: %v", got)
	}
}

func TestAnIdleStackPaysForAlarmsPollsSweepsAndStorage(t *testing.T) {
	u := bill.Usage{Sweep: bill.Counts{Process: 1, ReadUnits: 4}, SweepAll: bill.Counts{Process: 1, ReadUnits: 100}}
	e := bill.Estimates{Alarms: 7, Polls: 500_000, StoredGB: 3, SweepMinutes: 1, SweepAllMinutes: 60}
	b := bill.Idle(u, flat(t), e)
	for item, want := range map[string]float64{
		"CloudWatch: metrics of alarms": 7, "CloudWatch: dashboard": 1, "SQS: million polls by Lambda, standard queues": 1, "SQS: million polls by Lambda, FIFO queues": 1,
		"Lambda: million invocations": 0.04392, "DynamoDB: million read units": (43_200*4 + 720*100) / 1e6, "DynamoDB: GB of storage": 3, "DynamoDB: GB of point-in-time recovery": 3,
	} {
		if got := cost(b, item); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", item, got, want)
		}
	}
	e.SweepMinutes = 10
	if got := cost(bill.Idle(u, flat(t), e), "Lambda: million invocations"); math.Abs(got-0.00504) > 1e-9 {
		t.Errorf("with fewer sweeps: %v", got)
	}
}

func TestEstimatesAreMarked(t *testing.T) {
	for _, i := range bill.Messages(bill.Measured().Cases[0], 1, bill.ListPrices(), bill.Defaults()).Items {
		estimated := strings.Contains(i.Item, "duration") || strings.Contains(i.Item, "of Lambda and API")
		if i.Estimated != estimated {
			t.Errorf("%+v", i)
		}
	}
}

func TestEveryPriceHasItsUnitSourceAndDate(t *testing.T) {
	p := bill.ListPrices()
	if p.Region != "us-east-1" || p.Date == "" || p.Currency != "USD" {
		t.Errorf("%+v", p)
	}
	for name, price := range p.Prices {
		if price.Price <= 0 || price.Unit == "" || !strings.Contains(price.Source, "https://aws.amazon.com/") {
			t.Errorf("%s: %+v", name, price)
		}
	}
}

func TestPricesOfAFileAreChecked(t *testing.T) {
	text, err := json.Marshal(bill.ListPrices())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bill.ParsePrices(text); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ old, changed, want string }{
		{`"logs_gb"`, `"log_gb"`, "prices.logs_gb is missing"},
		{`"logs_gb"`, `"log_gb"`, "prices.log_gb is no known price"},
		{`"alarm_month":{"price":0.1`, `"alarm_month":{"price":-1`, "prices.alarm_month must be at least 0"},
		{`"region"`, `"place"`, "unknown field"},
		{`}`, ``, "read prices"},
	} {
		if _, err := bill.ParsePrices([]byte(strings.ReplaceAll(string(text), c.old, c.changed))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.changed, err, c.want)
		}
	}
}

func TestEstimatesAreChecked(t *testing.T) {
	e := bill.Defaults()
	if err := e.Check(); err != nil {
		t.Error(err)
	}
	e.MemoryMB, e.Polls, e.SweepMinutes = -1, math.NaN(), 0
	if err := e.Check(); err == nil || err.Error() != "--memory must be at least 0\n--polls must be at least 0\n--sweep-minutes must be at least 1" {
		t.Errorf("got %v", err)
	}
}

// TestTheMetricsOfAlarmsAreThoseOfTheDeployment compares with docs/deploy.md.
func TestTheMetricsOfAlarmsAreThoseOfTheDeployment(t *testing.T) {
	page, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`\((\d+) in all`).FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/deploy.md does not say how many metrics alarms have")
	}
	if n, _ := strconv.Atoi(string(found[1])); float64(n) != bill.Defaults().Alarms {
		t.Errorf("docs/deploy.md says %d metrics, Defaults %v: change Defaults, and then go test ./cmd/once -run Page -update", n, bill.Defaults().Alarms)
	}
}
