package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/bill"
)

// costs is the JSON output of cost.
type costs struct {
	Prices    bill.Prices    `json:"prices"`
	Estimates bill.Estimates `json:"estimates"`
	// Idle is a stack without messages, for 30 days.
	Idle bill.Bill `json:"idle_month"`
	// Messages is how many messages each case has.
	Messages float64    `json:"messages"`
	Cases    []costCase `json:"cases"`
}

// costCase is the bill of one case.
type costCase struct {
	bill.Case
	bill.Bill
	// MetricsMonth is the cost of the metrics of the stream in a month with messages.
	MetricsMonth float64 `json:"metrics_month"`
}

const costLong = `Cost prints what a stack on AWS costs, by item: a month of 30 days without messages, and a million messages of three configurations. It calls no
service. The numbers of requests, units, invocations and the bytes of the functions' log were counted on emulators by a test of this version. Items with ~
depend on estimates, which are the flags: nothing was measured in an account. The alarms, sweeps and the memory are the defaults of the deployment.

Prices are list prices of us-east-1, without free tiers, discounts, taxes and data transfer; --json shows the source of each. --prices names a file with
others, in the form of the member "prices" of the JSON output. What a destination costs (SNS, EventBridge, another queue) is not included.

  key        admission key, over HTTP; no group is named, and the built-in handler forwards to one destination
  token      admission token, over HTTP; a Go handler with a state, each message in a new group, one effect
  sequence   admission sequence, over the FIFO queue in batches of ten of one group, forwarded to one destination

Bodies are small: a request to SQS counts once for every 64 KB, a write unit is 1 KB, a read unit 4 KB.`

func (a *app) cost() *cobra.Command {
	e := bill.Defaults()
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Print what a deployed system costs, idle and for a million messages",
		Long:  costLong,
		Example: `  once cost
  once cost --process-ms 200 --memory 1024
  once cost --messages 30000000 --json | jq '.cases[] | {name, total}'
  once cost --json | jq .prices > prices.json      # change them, and: once cost --prices prices.json`,
		Args: arguments(cobra.NoArgs),
	}
	f := cmd.Flags()
	number := func(to *float64, name, usage string) { f.Float64Var(to, name, *to, usage) }
	number(&e.IngestMS, "ingest-ms", "estimate: how long an invocation of the ingest function takes, in milliseconds")
	number(&e.ProcessMS, "process-ms", "estimate: the same of the process function, with your handler")
	number(&e.PublishMS, "publish-ms", "estimate: the same of the publish function, with the destination")
	number(&e.LambdaLogBytes, "lambda-log-bytes", "estimate: what Lambda itself logs for an invocation, in bytes")
	number(&e.AccessLogBytes, "access-log-bytes", "estimate: a line of the API's access log, in bytes")
	number(&e.Polls, "polls", "estimate: receives of Lambda on each of the four idle queues in a month; default five long polls of 20 seconds at a time")
	number(&e.StoredGB, "stored-gb", "estimate: the size of the tables, in GB")
	number(&e.MemoryMB, "memory", "memory of each function, in MB")
	number(&e.Alarms, "alarms", "number of metrics of all alarms")
	number(&e.SweepMinutes, "sweep-minutes", "minutes between two sweeps of held messages")
	number(&e.SweepAllMinutes, "sweep-all-minutes", "minutes between two sweeps of all groups")
	f.BoolVar(&e.REST, "rest", false, "the API is a REST API")
	messages := f.Float64("messages", 1_000_000, "number of messages")
	file := f.String("prices", "", "file with prices, as JSON; default the list prices of us-east-1")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !(*messages > 0) {
			return usageError(cmd, errors.New("--messages must be more than 0"))
		}
		if err := e.Check(); err != nil {
			return usageError(cmd, err)
		}
		prices, err := readPrices(*file)
		if err != nil {
			return err
		}
		c := costsOf(prices, e, *messages)
		if *asJSON {
			return printJSON(a.out, c)
		}
		return a.printCosts(c)
	}
	return cmd
}

func readPrices(file string) (bill.Prices, error) {
	if file == "" {
		return bill.ListPrices(), nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if errors.Is(err, fs.ErrNotExist) {
		return bill.Prices{}, notThere(fmt.Errorf("read prices: %w", err))
	}
	if err != nil {
		return bill.Prices{}, fmt.Errorf("read prices: %w", err)
	}
	p, err := bill.ParsePrices(text)
	if err != nil {
		return p, &exitError{exitUsage, fmt.Errorf("%s: %w", file, err)}
	}
	return p, nil
}

func costsOf(p bill.Prices, e bill.Estimates, messages float64) costs {
	u := bill.Measured()
	out := costs{Prices: p, Estimates: e, Idle: bill.Idle(u, p, e), Messages: messages}
	for _, c := range u.Cases {
		out.Cases = append(out.Cases, costCase{c, bill.Messages(c, messages, p, e), bill.MetricsMonth(c, p)})
	}
	return out
}

func (a *app) printCosts(c costs) error {
	_, _ = fmt.Fprintf(a.out, "prices of %s, %s, in %s; ~ depends on an estimate\n\n", c.Prices.Region, c.Prices.Date, c.Prices.Currency)
	if err := table(a.out, idleRows(c, "A MONTH WITHOUT MESSAGES", "QUANTITY", "PRICE", "COST")); err != nil {
		return err
	}
	rows := append([][]string{{"", ""}}, messageRows(c, strings.ToUpper(messageCount(c.Messages)))...)
	return table(a.out, rows)
}

// messageCount returns the number of messages in words.
func messageCount(n float64) string {
	if n == 1_000_000 {
		return "a million messages"
	}
	return strconv.FormatFloat(n, 'f', -1, 64) + " messages"
}

// idleRows returns the table of a stack without messages.
func idleRows(c costs, head ...string) [][]string {
	rows := [][]string{head}
	for _, i := range c.Idle.Items {
		rows = append(rows, []string{itemName(i), figure(i.Quantity), figure(i.Price), money(i.Cost)})
	}
	return append(rows, []string{"total", "", "", money(c.Idle.Total)})
}

// messageRows returns the table of messages, with a column for each case.
func messageRows(c costs, title string) [][]string {
	head, total, metrics := []string{title}, []string{"total"}, []string{"besides, metrics of a stream for a month"}
	var names []string
	costs := map[string][]string{}
	for n, x := range c.Cases {
		head, total, metrics = append(head, x.Name), append(total, money(x.Total)), append(metrics, money(x.MetricsMonth))
		for _, i := range x.Items {
			name := itemName(i)
			if costs[name] == nil {
				names = append(names, name)
				costs[name] = slices.Repeat([]string{"-"}, len(c.Cases))
			}
			costs[name][n] = money(i.Cost)
		}
	}
	rows := [][]string{head}
	for _, name := range names {
		rows = append(rows, append([]string{name}, costs[name]...))
	}
	return append(rows, total, metrics)
}

// itemName marks an item that depends on an estimate.
func itemName(i bill.Item) string {
	if i.Estimated {
		return i.Item + " ~"
	}
	return i.Item
}

func money(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) }

// figure returns a number with four significant digits.
func figure(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
