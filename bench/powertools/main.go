// Command powertools compares the engine on DynamoDB with Powertools for AWS Lambda in Python and
// TypeScript, which it installs: requests, units, price and CPU time of a message, all through one
// counting proxy.
//
//	localstack/aws.sh run go -C bench run ./powertools
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/system/function"
)

const endpointVariable = "AWS_ENDPOINT_URL_DYNAMODB"

// A load is the number of messages of a client that are measured, and the number before that.
type load struct{ counted, warm int }

// comparison returns the load under which the clients are compared.
func comparison() load { return load{counted: 400, warm: 200} }

// A client is one row: a program and its case.
type client struct {
	name    string
	command []string
	// against is the case of the peers with which it is compared; empty for rows of peers.
	against string
	aim     aim
}

// An aim is the largest share of each peer's CPU and price for a row, and the largest number of
// requests and write units per message; nil if there is none.
type aim struct{ cpu, price, requests, writes *float64 }

// A figure is the cost of one message for a client.
type figure struct {
	requests, writes, reads, price, cpu float64 // cpu in ms
}

func main() {
	rounds := flag.Int("rounds", 5, "how often each client is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *rounds)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "powertools:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int) (err error) {
	endpoint := os.Getenv(endpointVariable)
	if endpoint == "" {
		return fmt.Errorf("%s is not set: localstack/aws.sh run go -C bench run ./powertools", endpointVariable)
	}
	clients, err := build(ctx)
	if err != nil {
		return err
	}
	m, environment, stop, err := counting(ctx, endpoint)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	figures, err := measureAll(ctx, rounds, clients, m, environment)
	if err != nil {
		return err
	}
	return report(clients, figures)
}

// counting creates the tables and the proxy in front of them, and returns the environment in which
// clients use both.
func counting(ctx context.Context, endpoint string) (m *meter, environment []string, stop func() error, err error) {
	if m, err = newMeter(endpoint); err != nil {
		return nil, nil, nil, err
	}
	tables, drop, err := benchTables(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	address, silence, err := listen(ctx, m)
	if err != nil {
		return nil, nil, nil, errors.Join(err, drop())
	}
	environment = append(os.Environ(), endpointVariable+"=http://"+address, "AWS_LAMBDA_FUNCTION_NAME=bench", "NODE_ENV=production",
		"AWS_DEFAULT_REGION="+os.Getenv("AWS_REGION")) // the name that Python's SDK uses
	return m, append(environment, tables...), func() error { return errors.Join(silence(), drop()) }, nil
}

func listen(ctx context.Context, h http.Handler) (address string, stop func() error, err error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }() // returns after Close
	return l.Addr().String(), s.Close, nil
}

// build installs the peers and compiles the engine's client.
func build(ctx context.Context) ([]client, error) {
	install := exec.CommandContext(ctx, "peers/install.sh")
	install.Stderr = os.Stderr
	out, err := install.Output()
	if err != nil {
		return nil, fmt.Errorf("install peers: %w", err)
	}
	binary := filepath.Join("..", ".tools", "peers", "once")
	if err := buildOurs(ctx, "./peers/once", binary); err != nil {
		return nil, err
	}
	python := []string{strings.TrimSpace(string(out)), "peers/python/main.py"}
	node := []string{"node", "../.tools/peers/typescript/main.mjs"}
	return rows(python, node, binary), nil
}

func buildOurs(ctx context.Context, source, binary string) error {
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", binary, source).CombinedOutput(); err != nil { //nolint:gosec // a program of this benchmark
		return fmt.Errorf("build client: %w: %s", err, text)
	}
	return nil
}

func rows(python, node []string, binary string) []client {
	with := func(command []string, name string) []string { return append(append([]string(nil), command...), name) }
	out := []client{
		{name: "Powertools Python, first", command: with(python, "first")},
		{name: "Powertools TypeScript, first", command: with(node, "first")},
		{name: "Powertools Python, duplicate of 20 KB", command: with(python, "duplicate")},
		{name: "Powertools TypeScript, duplicate of 20 KB", command: with(node, "duplicate")},
	}
	return append(out, ours(binary)...)
}

// ours returns the rows of the engine. Rows with effects, and with tokens issued by the HTTP API,
// do more than the peers do, and have no aim.
func ours(binary string) []client {
	alone, batched, tenth := new(1.0), new(0.2), new(0.1)
	var out []client
	for _, x := range []struct {
		name, which string
		aim         aim
	}{
		{"key, alone", "key-alone", aim{cpu: alone, requests: new(3.0), writes: new(1.0)}},
		{"key, alone, with an effect", "key-alone-effects", aim{writes: new(2.0)}},
		{"key, alone, by HTTP", "key-alone-issued", aim{writes: new(2.0)}},
		{"key, alone, by HTTP, with an effect", "key-alone-issued-effects", aim{writes: new(3.0)}},
		{"key, in a new group that it names", "key-named", aim{cpu: alone, requests: new(4.0), writes: new(2.0)}},
		{"key, in a new group that it names, with an effect", "key-named-effects", aim{writes: new(3.0)}},
		{"key, in a new group that it names, by HTTP", "key-named-issued", aim{writes: new(3.0)}},
		{"key, after another of its group", "key-again", aim{cpu: alone, writes: new(2.0)}},
		{"key, batches of ten that name no group", "key-new-groups", aim{cpu: batched, requests: new(1.5), writes: new(1.0)}},
		{"key, batches of ten new groups", "key-new-named", aim{cpu: batched, requests: new(1.5), writes: new(2.0)}},
		{"key, batches of the same ten groups", "key-ten-groups", aim{cpu: batched, writes: new(2.0)}},
		{"key, batches of ten of one group", "key-one-group", aim{cpu: batched, writes: new(2.0)}},
		{"sequence, alone", "sequence-alone", aim{cpu: alone, writes: new(1.0)}},
		{"sequence, alone, with an effect", "sequence-alone-effects", aim{}},
		{"sequence, after another of its group", "sequence-again", aim{cpu: alone, writes: new(1.0)}},
		{"sequence, batches of ten new groups", "sequence-new-groups", aim{cpu: batched, writes: new(1.0)}},
		{"sequence, batches of the same ten groups", "sequence-ten-groups", aim{cpu: batched, writes: new(1.0)}},
		{"sequence, batches of ten of one group", "sequence-one-group", aim{cpu: batched, requests: new(0.4), writes: new(0.2)}},
		{"sequence, batches of ten of one group, with effects", "sequence-one-group-effects", aim{requests: new(0.4), writes: new(0.2)}},
		{"key, duplicate of 20 KB", "key-duplicate", aim{cpu: alone, price: tenth, writes: new(0.0)}},
		{"key, duplicate of its group's last, 20 KB", "key-duplicate-last", aim{cpu: alone, price: tenth, writes: new(0.0)}},
		{"sequence, duplicate of 20 KB", "sequence-duplicate", aim{cpu: alone, price: tenth, writes: new(0.0)}},
		{"sequence, duplicate of its group's last, 20 KB", "sequence-duplicate-last", aim{cpu: alone, price: tenth, writes: new(0.0)}},
	} {
		against := "first"
		if strings.Contains(x.which, "duplicate") {
			against = "duplicate"
		}
		out = append(out, client{x.name, []string{binary, x.which}, against, x.aim})
	}
	return out
}

// benchTables creates the tables of all clients, and returns variables with their names.
func benchTables(ctx context.Context) (variables []string, drop func() error, err error) {
	cfg, err := awsconfig.Load(ctx)
	if err != nil {
		return nil, nil, err
	}
	clients := function.NewClients(cfg)
	name := "bench-" + rand.Text()
	ours := dynamostore.Tables{Groups: name + "-groups", Tokens: name + "-tokens"}
	schemas := append(dynamostore.Schema(ours), simpleTable(name+"-records", "id"), simpleTable(name+"-accounts", "pk"))
	for _, in := range schemas {
		if _, err := clients.DynamoDB.CreateTable(ctx, in); err != nil {
			return nil, nil, fmt.Errorf("create table: %w", err)
		}
		if err := dynamodb.NewTableExistsWaiter(clients.DynamoDB).Wait(ctx, &dynamodb.DescribeTableInput{TableName: in.TableName}, time.Minute); err != nil {
			return nil, nil, fmt.Errorf("wait for table: %w", err)
		}
	}
	drop = func() (err error) {
		for _, in := range schemas {
			_, failed := clients.DynamoDB.DeleteTable(context.WithoutCancel(ctx), &dynamodb.DeleteTableInput{TableName: in.TableName})
			err = errors.Join(err, failed)
		}
		return err
	}
	return []string{"BENCH_GROUPS=" + ours.Groups, "BENCH_TOKENS=" + ours.Tokens, "BENCH_RECORDS=" + name + "-records", "BENCH_ACCOUNTS=" + name + "-accounts"}, drop, nil
}

func simpleTable(name, key string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key, AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(key), KeyType: types.KeyTypeHash}},
	}
}

// measureAll runs each client in turn, for several rounds.
func measureAll(ctx context.Context, rounds int, clients []client, m *meter, environment []string) ([][]figure, error) {
	figures := make([][]figure, len(clients))
	for range rounds {
		for i, c := range clients {
			f, err := measure(ctx, c, m, environment, comparison())
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			figures[i] = append(figures[i], f)
		}
	}
	return figures, nil
}

// measure runs one client: it reports when it is warm, waits for a signal to continue, and reports
// its figures.
func measure(ctx context.Context, c client, m *meter, environment []string, l load) (f figure, err error) {
	command := exec.CommandContext(ctx, c.command[0], append(c.command[1:], strconv.Itoa(l.counted), strconv.Itoa(l.warm))...) //nolint:gosec // programs of this benchmark
	var complaints bytes.Buffer
	command.Env, command.Stderr = environment, &complaints
	in, err1 := command.StdinPipe()
	out, err2 := command.StdoutPipe()
	if err := errors.Join(err1, err2, command.Start()); err != nil {
		return f, err
	}
	defer func() {
		// closing its input ends a client that is still waiting
		if err = errors.Join(err, in.Close(), command.Wait()); err != nil {
			err = fmt.Errorf("%w: %s", err, complaints.Bytes())
		}
	}()
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		return f, fmt.Errorf("%q in place of ready: %w", line, err)
	}
	if _, err := m.reset(); err != nil {
		return f, err
	}
	if _, err := io.WriteString(in, "go\n"); err != nil {
		return f, err
	}
	var took struct {
		CPU float64 `json:"cpu_seconds"`
	}
	if err := json.NewDecoder(lines).Decode(&took); err != nil {
		return f, fmt.Errorf("read result: %w", err)
	}
	used, err := m.reset()
	n := float64(l.counted)
	return figure{float64(used.requests) / n, used.writes / n, used.reads / n, used.price() / n, took.CPU * 1000 / n}, err
}
