// Command cost measures the price of a message in DynamoDB: it runs the engine on a DynamoDB
// endpoint on your machine, in two tables that it creates and deletes, and counts requests and
// units as DynamoDB itself reports them.
//
//	AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:8123 go -C bench run ./cost
//	go -C bench run ./cost -body 2000 -write-price 0.7065 -read-price 0.1413 -json
//
// For each admission it prints what one message costs until its effects are published: requests,
// write units, read units, and the price of a million messages. A duplicate is the same message
// once more.
//
// # Limits
//
// DynamoDB charges for a failed condition but reports no units for it; no other client works on
// these tables, so none fails. DynamoDB Local counts nothing for a missing item in a batch read,
// where DynamoDB charges a read unit. Tokens issued by the HTTP API cost one request and one write
// unit more for key and token. Queues, functions and the API are not included.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/system/deployed"
)

const (
	dynamoEndpoint = "AWS_ENDPOINT_URL_DYNAMODB"
	// The prices of DynamoDB on demand in us-east-1 since November 2024, in dollars per million
	// units.
	defaultWritePrice = 0.625
	defaultReadPrice  = 0.125
	// maxBody leaves room in an item for ten pending entries.
	maxBody = 20_000
)

// arguments are those of the command line.
type arguments struct {
	prices Prices
	body   int
	json   bool
}

// costs are the output as JSON.
type costs struct {
	Endpoint string   `json:"endpoint"`
	Body     int      `json:"body_bytes"`
	Prices   Prices   `json:"dollars_per_million_units"`
	Bills    []priced `json:"bills"`
}

type priced struct {
	Bill
	// PerMillion and DuplicatesPerMillion are dollars for a million messages.
	PerMillion           float64 `json:"dollars_per_million"`
	DuplicatesPerMillion float64 `json:"duplicate_dollars_per_million"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

// run measures and prints as the arguments say.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	var o arguments
	f := flag.NewFlagSet("cost", flag.ContinueOnError)
	f.Float64Var(&o.prices.Write, "write-price", defaultWritePrice, "dollars per million write units")
	f.Float64Var(&o.prices.Read, "read-price", defaultReadPrice, "dollars per million read units")
	f.IntVar(&o.body, "body", 0, fmt.Sprintf("bytes of each body and of the group's state, at most %d", maxBody))
	f.BoolVar(&o.json, "json", false, "print JSON")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	endpoint := os.Getenv(dynamoEndpoint)
	client, err := connect(ctx, endpoint)
	if err != nil {
		return err
	}
	measured, err := Measure(ctx, client, Options{Body: o.body})
	if err != nil {
		return err
	}
	return write(stdout, costs{endpoint, o.body, o.prices, price(measured, o.prices)}, o.json)
}

func (o arguments) check() error {
	switch {
	case o.body < 0 || o.body > maxBody:
		return fmt.Errorf("-body must be between 0 and %d", maxBody)
	case !(o.prices.Write >= 0): // NaN is neither
		return errors.New("-write-price must be at least 0")
	case !(o.prices.Read >= 0):
		return errors.New("-read-price must be at least 0")
	}
	return nil
}

// connect returns the settings of a client for a DynamoDB on this machine. It never sends real
// credentials there.
func connect(ctx context.Context, endpoint string) (dynamodb.Options, error) {
	if endpoint == "" {
		return dynamodb.Options{}, fmt.Errorf("%s is not set: localstack/dynamodb-local.sh up starts a DynamoDB on this machine, at http://127.0.0.1:8123", dynamoEndpoint)
	}
	if err := awsconfig.CheckEndpoint(dynamoEndpoint, endpoint); err != nil {
		return dynamodb.Options{}, err
	}
	cfg, err := awsconfig.Load(ctx,
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("local", "local", "")), config.WithDefaultRegion("us-east-1"))
	if err != nil {
		return dynamodb.Options{}, fmt.Errorf("read AWS settings: %w", err)
	}
	options := deployed.DynamoDB(cfg).Options()
	if aws.ToString(options.BaseEndpoint) != endpoint {
		return options, errors.New("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS is set: unset it")
	}
	return options, nil
}

func price(measured []Bill, p Prices) []priced {
	out := make([]priced, len(measured))
	for i, b := range measured {
		out[i] = priced{b, p.PerMillion(b.Units()), p.PerMillion(b.Duplicate)}
	}
	return out
}

// write prints costs as JSON or as a table.
func write(w io.Writer, c costs, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(c)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	// Flush returns the error
	row := func(columns ...string) { _, _ = fmt.Fprintln(t, strings.Join(columns, "\t")) }
	row("ADMISSION", "EFFECTS", "BATCH", "REQUESTS", "WRITE UNITS", "READ UNITS", "$/MILLION", "DUPLICATES: REQUESTS", "READ UNITS", "$/MILLION")
	for _, b := range c.Bills {
		row(admissionOf(b.Case), yes(b.Effects), arrival(b.Case), decimal(b.Requests), decimal(b.WriteUnits), decimal(b.ReadUnits), dollars(b.PerMillion),
			decimal(b.Duplicate.Requests), decimal(b.Duplicate.ReadUnits), dollars(b.DuplicatesPerMillion))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nwrite units at $%g a million, read units at $%g; DynamoDB only\n", c.Prices.Write, c.Prices.Read)
	return err
}

func admissionOf(c Case) string {
	if !c.Record {
		return string(c.Admission) + ", no group record"
	}
	return string(c.Admission)
}

func arrival(c Case) string {
	if c.Own && c.Batch == 1 {
		return "alone, a group of its own"
	}
	if c.Own {
		return fmt.Sprintf("%d, each a group of its own", c.Batch)
	}
	switch {
	case c.Known:
		return "after another of its group"
	case c.Batch == 1:
		return "alone"
	case c.Groups == 1:
		return fmt.Sprintf("%d of one group", c.Batch)
	}
	return fmt.Sprintf("%d of %d groups", c.Batch, c.Groups)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func decimal(x float64) string { return fmt.Sprintf("%.2f", x) }

func dollars(x float64) string { return fmt.Sprintf("%.3f", x) }
