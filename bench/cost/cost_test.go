package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

// TestMessagesCostAtMostTheDocumentedUnits has the write units and requests that a message may cost
// at most.
func TestMessagesCostAtMostTheDocumentedUnits(t *testing.T) {
	client := dynamodb.NewFromConfig(awstest.Config(t, "DYNAMODB"))
	bills, err := Measure(t.Context(), client.Options(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(bills) != len(Cases()) {
		t.Errorf("%d bills of %d cases", len(bills), len(Cases()))
	}
	for _, c := range []struct {
		of               Case
		writes, requests float64
	}{
		{Case{Admission: record.ByKey, Record: true, Own: true, Batch: 1, Groups: 1}, 1, 3},
		{Case{Admission: record.ByKey, Effects: true, Record: true, Own: true, Batch: 1, Groups: 1}, 2, 5},
		{Case{Admission: record.ByKey, Record: true, Own: true, Batch: 10, Groups: 10}, 1, 1.5},
		{Case{Admission: record.ByKey, Record: true, Batch: 1, Groups: 1}, 2, 4},
		{Case{Admission: record.ByKey, Record: true, Batch: 10, Groups: 10}, 2, 1.5},
		{Case{Admission: record.ByKey, Effects: true, Record: true, Batch: 1, Groups: 1}, 3, 6},
		{Case{Admission: record.BySequence, Record: true, Batch: 1, Groups: 1}, 1, 2},
		{Case{Admission: record.BySequence, Record: true, Batch: 10, Groups: 1}, 0.2, 0.4},
	} {
		i := slices.IndexFunc(bills, func(b Bill) bool { return b.Case == c.of })
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

func TestMeasureDeletesItsTables(t *testing.T) {
	client := dynamodb.NewFromConfig(awstest.Config(t, "DYNAMODB"))
	if _, err := Measure(t.Context(), client.Options(), Options{Body: 500_000}); err == nil {
		t.Error("a body that no item takes was measured")
	}
	eventually.Succeeds(t, func() error { // other runs on the same endpoint delete their tables too
		if left := tablesOf(t, client); len(left) > 0 {
			return fmt.Errorf("left over: %v", left)
		}
		return nil
	})
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
	p := Prices{Write: 0.625, Read: 0.125}
	if got := p.PerMillion(Units{Requests: 4, WriteUnits: 2, ReadUnits: 2}); got != 1.5 {
		t.Errorf("got %v", got)
	}
}

func TestRunPrintsAPriceForEachCase(t *testing.T) {
	dynamodb.NewFromConfig(awstest.Config(t, "DYNAMODB"))
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-json", "-write-price", "1", "-read-price", "0"}, &out); err != nil {
		t.Fatal(err)
	}
	var got costs
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Bills) != len(Cases()) {
		t.Errorf("%d bills, want one for each of %d cases", len(got.Bills), len(Cases()))
	}
	for _, b := range got.Bills {
		if b.PerMillion != b.WriteUnits || b.DuplicatesPerMillion != 0 {
			t.Errorf("at a dollar per write: %+v", b)
		}
	}
	var table strings.Builder
	if err := write(&table, got, false); err != nil || !strings.Contains(table.String(), "10 of 10 groups") {
		t.Errorf("%v: %s", err, table.String())
	}
}

func TestRunReportsUnusableArguments(t *testing.T) {
	for _, c := range []struct{ args, endpoint, want string }{
		{"-body 99999", "", "-body must be between 0 and 20000"},
		{"-write-price -1", "", "-write-price must be at least 0"},
		{"-read-price NaN", "", "-read-price must be at least 0"},
		{"", "", "AWS_ENDPOINT_URL_DYNAMODB is not set"},
		{"", "localhost", "AWS_ENDPOINT_URL_DYNAMODB is not an address"},
	} {
		t.Setenv(dynamoEndpoint, c.endpoint)
		if err := run(t.Context(), strings.Fields(c.args), io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q at %q: %v, want %q", c.args, c.endpoint, err, c.want)
		}
	}
}
