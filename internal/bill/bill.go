package bill

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

//go:embed prices.json
var prices []byte

// Prices are the prices of one region. The field names are a contract: a user may write them.
type Prices struct {
	Region   string `json:"region"`
	Currency string `json:"currency"`
	// Date is when the prices were looked up.
	Date   string           `json:"date"`
	Note   string           `json:"note,omitempty"`
	Prices map[string]Price `json:"prices"`
}

// A Price is the price of one unit, and where it is from.
type Price struct {
	Price  float64 `json:"price"`
	Unit   string  `json:"unit,omitempty"`
	Source string  `json:"source,omitempty"`
}

// ListPrices returns the prices that are built in.
func ListPrices() Prices {
	p, err := ParsePrices(prices)
	if err != nil {
		panic(fmt.Sprintf("bill: prices.json: %v", err)) // a test reads it
	}
	return p
}

// ParsePrices reads prices from JSON. Every price of the built-in ones must be there.
func ParsePrices(text []byte) (Prices, error) {
	var p Prices
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("read prices: %w", err)
	}
	var wrong []error
	for _, name := range priceNames() {
		switch price, ok := p.Prices[name]; {
		case !ok:
			wrong = append(wrong, fmt.Errorf("prices.%s is missing", name))
		case price.Price < 0:
			wrong = append(wrong, fmt.Errorf("prices.%s must be at least 0", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Prices)) {
		if !slices.Contains(priceNames(), name) {
			wrong = append(wrong, fmt.Errorf("prices.%s is no known price; known are %s", name, strings.Join(priceNames(), ", ")))
		}
	}
	return p, errors.Join(wrong...)
}

func priceNames() []string {
	return []string{
		apiHTTP, apiREST, lambdaCall, lambdaTime, sqsStandard, sqsFIFO, dynamoWrite, dynamoRead, dynamoGB, dynamoRecovery, logsGB, alarm, dashboard, metric,
	}
}

// The names of the prices.
const (
	apiHTTP        = "api_http_million"
	apiREST        = "api_rest_million"
	lambdaCall     = "lambda_million"
	lambdaTime     = "lambda_gb_second"
	sqsStandard    = "sqs_standard_million"
	sqsFIFO        = "sqs_fifo_million"
	dynamoWrite    = "dynamodb_write_million"
	dynamoRead     = "dynamodb_read_million"
	dynamoGB       = "dynamodb_gb_month"
	dynamoRecovery = "dynamodb_recovery_gb_month"
	logsGB         = "logs_gb"
	alarm          = "alarm_month"
	dashboard      = "dashboard_month"
	metric         = "metric_month"
)

// Estimates are the quantities that need an account to be counted, and the settings of a stack.
type Estimates struct {
	// IngestMS, ProcessMS and PublishMS are how long an invocation takes, in milliseconds.
	IngestMS  float64 `json:"ingest_ms"`
	ProcessMS float64 `json:"process_ms"`
	PublishMS float64 `json:"publish_ms"`
	// LambdaLogBytes is the size of Lambda's own log lines about an invocation, AccessLogBytes that
	// of a line of the API's access log.
	LambdaLogBytes float64 `json:"lambda_log_bytes"`
	AccessLogBytes float64 `json:"access_log_bytes"`
	// Polls is how many receives Lambda makes in a month on each of the four idle queues.
	Polls float64 `json:"polls_per_queue_and_month"`
	// StoredGB is the size of the tables.
	StoredGB float64 `json:"stored_gb"`
	// MemoryMB is the memory of each function.
	MemoryMB float64 `json:"memory_mb"`
	// REST says that the API is a REST API.
	REST bool `json:"rest"`
	// Alarms is the number of metrics of all alarms: CloudWatch charges for each.
	Alarms float64 `json:"alarms"`
	// SweepMinutes and SweepAllMinutes are the minutes between two sweeps.
	SweepMinutes    float64 `json:"sweep_minutes"`
	SweepAllMinutes float64 `json:"sweep_all_minutes"`
}

// Defaults returns the estimates for a stack with the default settings.
func Defaults() Estimates {
	return Estimates{
		IngestMS: 50, ProcessMS: 50, PublishMS: 50,
		LambdaLogBytes: 600, AccessLogBytes: 350,
		Polls: 5 * secondsAMonth / 20, StoredGB: 1,
		MemoryMB: 512, Alarms: 60, SweepMinutes: 1, SweepAllMinutes: 60,
	}
}

const (
	// secondsAMonth are those of 30 days.
	secondsAMonth  = 30 * 24 * 60 * 60
	minutesAMonth  = secondsAMonth / 60
	million        = 1_000_000
	gigabyte       = 1_000_000_000
	standardQueues = 2 // that trigger functions
	fifoQueues     = 2
	// dimensions is how often a metric counts: by stream, and for the whole system.
	dimensions = 2
)

// An Item is one line of a bill. The field names are a contract.
type Item struct {
	Item string `json:"item"`
	// Quantity is in units of the price.
	Quantity float64 `json:"quantity"`
	Price    float64 `json:"price"`
	Cost     float64 `json:"cost"`
	// Estimated is true if the quantity depends on an estimate, false if it was counted.
	Estimated bool `json:"estimated"`
}

// A Bill is items and their sum.
type Bill struct {
	Items []Item  `json:"items"`
	Total float64 `json:"total"`
}

// A sheet adds items to a bill.
type sheet struct {
	prices    Prices
	estimates Estimates
	bill      Bill
}

// add adds an item unless its quantity is 0.
func (s *sheet) add(item string, quantity float64, price string, estimated bool) {
	if quantity == 0 {
		return
	}
	each := s.prices.Prices[price].Price
	s.bill.Items = append(s.bill.Items, Item{item, quantity, each, quantity * each, estimated})
	s.bill.Total += quantity * each
}

// uses adds the items of the services that were used.
func (s *sheet) uses(c Counts) {
	e := s.estimates
	api, price := "API Gateway, HTTP API: million requests", apiHTTP
	if e.REST {
		api, price = "API Gateway, REST API: million requests", apiREST
	}
	s.add(api, c.API/million, price, false)
	s.add("Lambda: million invocations", c.Invocations()/million, lambdaCall, false)
	seconds := (c.Ingest*e.IngestMS + c.Process*e.ProcessMS + c.Publish*e.PublishMS) / 1000
	s.add("Lambda: duration, GB-seconds", seconds*e.MemoryMB/1024, lambdaTime, true)
	s.add("SQS: million requests to standard queues", c.Standard/million, sqsStandard, false)
	s.add("SQS: million requests to FIFO queues", c.FIFO/million, sqsFIFO, false)
	s.add("DynamoDB: million write units", c.WriteUnits/million, dynamoWrite, false)
	s.add("DynamoDB: million read units", c.ReadUnits/million, dynamoRead, false)
	s.add("CloudWatch: GB of logs, of the functions", c.LogBytes/gigabyte, logsGB, false)
	s.add("CloudWatch: GB of logs, of Lambda and API Gateway", (c.Invocations()*e.LambdaLogBytes+c.API*e.AccessLogBytes)/gigabyte, logsGB, true)
}

// Messages returns the bill of n messages of a case.
func Messages(c Case, n float64, p Prices, e Estimates) Bill {
	s := &sheet{prices: p, estimates: e}
	s.uses(c.Each.Times(n))
	return s.bill
}

// MetricsMonth returns the cost of the metrics of a stream of the case for a month in which it has
// messages. It does not depend on their number.
func MetricsMonth(c Case, p Prices) float64 {
	return float64(c.Metrics*dimensions) * p.Prices[metric].Price
}

// Idle returns the bill of a stack without messages for 30 days.
func Idle(u Usage, p Prices, e Estimates) Bill {
	s := &sheet{prices: p, estimates: e}
	s.add("CloudWatch: metrics of alarms", e.Alarms, alarm, false)
	s.add("CloudWatch: dashboard", 1, dashboard, false)
	s.add("SQS: million polls by Lambda, standard queues", standardQueues*e.Polls/million, sqsStandard, true)
	s.add("SQS: million polls by Lambda, FIFO queues", fifoQueues*e.Polls/million, sqsFIFO, true)
	sweeps, all := u.Sweep.Times(minutesAMonth/e.SweepMinutes), u.SweepAll.Times(minutesAMonth/e.SweepAllMinutes)
	s.uses(sweeps.plus(all))
	s.add("DynamoDB: GB of storage", e.StoredGB, dynamoGB, true)
	s.add("DynamoDB: GB of point-in-time recovery", e.StoredGB, dynamoRecovery, true)
	return s.bill
}

func (c Counts) plus(d Counts) Counts {
	return Counts{
		c.API + d.API, c.Ingest + d.Ingest, c.Process + d.Process, c.Publish + d.Publish, c.Standard + d.Standard, c.FIFO + d.FIFO,
		c.WriteUnits + d.WriteUnits, c.ReadUnits + d.ReadUnits, c.LogBytes + d.LogBytes,
	}
}

// Check returns an error for estimates that make no sense.
func (e Estimates) Check() error {
	var wrong []error
	for name, value := range map[string]float64{
		"ingest-ms": e.IngestMS, "process-ms": e.ProcessMS, "publish-ms": e.PublishMS, "lambda-log-bytes": e.LambdaLogBytes, "access-log-bytes": e.AccessLogBytes,
		"polls": e.Polls, "stored-gb": e.StoredGB, "memory": e.MemoryMB, "alarms": e.Alarms,
	} {
		if !(value >= 0) || math.IsInf(value, 0) {
			wrong = append(wrong, fmt.Errorf("--%s must be at least 0", name))
		}
	}
	for name, value := range map[string]float64{"sweep-minutes": e.SweepMinutes, "sweep-all-minutes": e.SweepAllMinutes} {
		if !(value >= 1) || math.IsInf(value, 0) {
			wrong = append(wrong, fmt.Errorf("--%s must be at least 1", name))
		}
	}
	slices.SortFunc(wrong, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(wrong...)
}
