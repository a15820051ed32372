package cost_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/awsconfig"
	"github.com/effectively-once/once/internal/cost"
	"github.com/effectively-once/once/internal/record"
)

func connect(t *testing.T) *dynamodb.Client {
	t.Helper()
	if os.Getenv("AWS_ENDPOINT_URL_DYNAMODB") == "" {
		t.Skip("AWS_ENDPOINT_URL_DYNAMODB is not set: localstack/dynamodb-local.sh up starts a DynamoDB to measure on")
	}
	cfg, err := awsconfig.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return dynamodb.NewFromConfig(cfg)
}

// TestMessagesCostWhatTheDesignSays holds the write units and requests that a message may cost at most.
func TestMessagesCostWhatTheDesignSays(t *testing.T) {
	client := connect(t)
	done := 0
	bills, err := cost.Measure(t.Context(), client.Options(), cost.Options{Done: func() { done++ }})
	if err != nil {
		t.Fatal(err)
	}
	if done != len(bills) || len(bills) != len(cost.Cases()) {
		t.Errorf("%d bills, told of %d", len(bills), done)
	}
	for _, c := range []struct {
		of               cost.Case
		writes, requests float64
	}{
		{cost.Case{Admission: record.ByKey, Record: true, Batch: 1, Groups: 1}, 2, 4},
		{cost.Case{Admission: record.ByKey, Record: true, Batch: 10, Groups: 10}, 2, 1.5},
		{cost.Case{Admission: record.ByKey, Effects: true, Record: true, Batch: 1, Groups: 1}, 3, 6},
		{cost.Case{Admission: record.BySequence, Record: true, Batch: 1, Groups: 1}, 1, 2},
		{cost.Case{Admission: record.BySequence, Record: true, Batch: 10, Groups: 1}, 0.2, 0.4},
	} {
		i := slices.IndexFunc(bills, func(b cost.Bill) bool { return b.Case == c.of })
		if i < 0 {
			t.Errorf("%+v was not measured", c.of)
			continue
		}
		b := bills[i]
		if b.WriteUnits > c.writes || b.WriteUnits == 0 || b.Requests > c.requests || b.Requests == 0 {
			t.Errorf("%+v: %.2f write units and %.2f requests, want at most %.2f and %.2f", c.of, b.WriteUnits, b.Requests, c.writes, c.requests)
		}
		if b.Duplicate.WriteUnits > 0 || b.Duplicate.ReadUnits == 0 {
			t.Errorf("%+v: a duplicate costs %+v", c.of, b.Duplicate)
		}
	}
}

func TestMeasuringLeavesNoTable(t *testing.T) {
	client := connect(t)
	if _, err := cost.Measure(t.Context(), client.Options(), cost.Options{Body: 500_000}); err == nil {
		t.Error("a body that no item takes was measured")
	}
	var left []string
	for range 600 { // others may be measuring on the same endpoint: theirs go
		if left = tablesOf(t, client); len(left) == 0 {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	t.Errorf("left over: %v", left)
}

func tablesOf(t *testing.T, client *dynamodb.Client) []string {
	t.Helper()
	tables, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(tables.TableNames, func(name string) bool { return !strings.HasPrefix(name, "once-cost-") })
}

func TestAPriceIsThatOfAMillionMessages(t *testing.T) {
	p := cost.Prices{Write: 0.625, Read: 0.125}
	if got := p.PerMillion(cost.Units{Requests: 4, WriteUnits: 2, ReadUnits: 2}); got != 1.5 {
		t.Errorf("got %v", got)
	}
}
