package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/awsconfig"
	"github.com/effectively-once/once/internal/cost"
	"github.com/effectively-once/once/internal/lambdadev"
	"github.com/effectively-once/once/internal/stack"
)

const (
	dynamoEndpoint = "AWS_ENDPOINT_URL_DYNAMODB"
	// The prices of DynamoDB on demand in us-east-1 since November 2024, in dollars per million units.
	defaultWritePrice = 0.625
	defaultReadPrice  = 0.125
)

// costing is what cost was asked for.
type costing struct {
	prices cost.Prices
	body   int
	json   bool
}

// costs is what cost prints as JSON.
type costs struct {
	Endpoint string      `json:"endpoint"`
	Body     int         `json:"body_bytes"`
	Prices   cost.Prices `json:"dollars_per_million_units"`
	Bills    []bill      `json:"bills"`
}

type bill struct {
	cost.Bill
	// PerMillion and DuplicatesPerMillion are dollars for a million messages.
	PerMillion           float64 `json:"dollars_per_million"`
	DuplicatesPerMillion float64 `json:"duplicate_dollars_per_million"`
}

func (a *app) cost() *cobra.Command {
	var o costing
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Measure what a message costs in DynamoDB",
		Long: `Cost runs the engine against a DynamoDB endpoint on your machine, in two tables that it creates and deletes, and prints for each admission what one
message costs until its effects are published: requests, write units and read units as DynamoDB reports them, and the price of a million messages.
A duplicate is the same message once more. Tokens that the front door issues cost one request and one write unit more for key and token.

The endpoint is $` + dynamoEndpoint + `. Prices are those of DynamoDB on demand in us-east-1; give those of your region.
They are DynamoDB's part only: requests to queues, functions and the API come on top.`,
		Example: `  AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:8123 once cost
  once cost --body 2000 --write-price 0.7065 --read-price 0.1413 --json`,
		Args: arguments(cobra.NoArgs),
	}
	f := cmd.Flags()
	f.Float64Var(&o.prices.Write, "write-price", defaultWritePrice, "dollars per million write units")
	f.Float64Var(&o.prices.Read, "read-price", defaultReadPrice, "dollars per million read units")
	f.IntVar(&o.body, "body", 0, fmt.Sprintf("bytes of each body and of the group's state, at most %d", maxCostBody))
	f.BoolVar(&o.json, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return usageError(cmd, err)
		}
		return a.measure(cmd, o)
	}
	return cmd
}

func (o costing) check() error {
	switch {
	case o.body < 0 || o.body > maxCostBody:
		return fmt.Errorf("--body must be between 0 and %d", maxCostBody)
	case !(o.prices.Write >= 0): // NaN is neither
		return errors.New("--write-price must be at least 0")
	case !(o.prices.Read >= 0):
		return errors.New("--read-price must be at least 0")
	}
	return nil
}

// maxCostBody leaves room in an item for ten pending entries.
const maxCostBody = 20_000

func (a *app) measure(cmd *cobra.Command, o costing) error {
	endpoint := os.Getenv(dynamoEndpoint)
	if endpoint == "" {
		return usageError(cmd, fmt.Errorf("%s is not set: localstack/dynamodb-local.sh up starts a DynamoDB on this machine, at http://127.0.0.1:8123", dynamoEndpoint))
	}
	if err := lambdadev.CheckEndpoint(dynamoEndpoint, endpoint); err != nil {
		return usageError(cmd, err)
	}
	// A local endpoint takes any credentials, and must not get real ones.
	cfg, err := awsconfig.Load(cmd.Context(),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("local", "local", "")), config.WithDefaultRegion("us-east-1"))
	if err != nil {
		return fmt.Errorf("read AWS settings: %w", err)
	}
	options := stack.DynamoDB(cfg).Options()
	if aws.ToString(options.BaseEndpoint) != endpoint {
		return usageError(cmd, errors.New("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS is set: unset it"))
	}
	bar := a.progress(len(cost.Cases()))
	measured, err := cost.Measure(cmd.Context(), options, cost.Options{Body: o.body, Done: func() { _ = bar.Add(1) }})
	_ = bar.Exit()
	if err != nil {
		return err
	}
	return a.printCosts(costs{endpoint, o.body, o.prices, bills(measured, o.prices)}, o.json)
}

func bills(measured []cost.Bill, prices cost.Prices) []bill {
	out := make([]bill, len(measured))
	for i, b := range measured {
		out[i] = bill{b, prices.PerMillion(b.Units()), prices.PerMillion(b.Duplicate)}
	}
	return out
}

func (a *app) printCosts(c costs, asJSON bool) error {
	if asJSON {
		return printJSON(a.out, c)
	}
	rows := [][]string{{"ADMISSION", "EFFECTS", "BATCH", "REQUESTS", "WRITE UNITS", "READ UNITS", "$/MILLION", "DUPLICATES: REQUESTS", "READ UNITS", "$/MILLION"}}
	for _, b := range c.Bills {
		rows = append(rows, []string{
			admissionOf(b.Case), yes(b.Effects), arrival(b.Case), decimal(b.Requests), decimal(b.WriteUnits), decimal(b.ReadUnits), dollars(b.PerMillion),
			decimal(b.Duplicate.Requests), decimal(b.Duplicate.ReadUnits), dollars(b.DuplicatesPerMillion),
		})
	}
	if err := table(a.out, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.out, "\nwrite units at $%g a million, read units at $%g; DynamoDB only\n", c.Prices.Write, c.Prices.Read)
	return err
}

func admissionOf(c cost.Case) string {
	if !c.Record {
		return string(c.Admission) + ", no group record"
	}
	return string(c.Admission)
}

func arrival(c cost.Case) string {
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
