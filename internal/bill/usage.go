// Package bill computes the cost of a deployed system, by item: requests and units, as a test
// counted them, times list prices.
//
// Some quantities need an account to be counted, such as the time that a function runs and the
// lines that Lambda itself logs. They are estimates of the caller: see [Estimates].
package bill

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed usage.json
var usage []byte

// Usage is the usage of the services by messages and sweeps.
type Usage struct {
	Cases []Case `json:"cases"`
	// Sweep and SweepAll are one sweep each of a system without messages.
	Sweep    Counts `json:"sweep"`
	SweepAll Counts `json:"sweep_all"`
}

// A Case is one configuration of a stream, with the usage of one message.
type Case struct {
	Name string `json:"name"`
	// Title describes the messages and their way.
	Title string `json:"title"`
	// Stream is the configuration of the stream.
	Stream string `json:"stream"`
	// Each is the usage of one message until its effect was sent.
	Each Counts `json:"each_message"`
	// Metrics is how many metrics its functions report.
	Metrics int `json:"metrics"`
}

// Counts is the usage of the services.
type Counts struct {
	// API counts requests to API Gateway.
	API float64 `json:"api_requests"`
	// Ingest, Process and Publish count invocations of the functions.
	Ingest  float64 `json:"ingest_invocations"`
	Process float64 `json:"process_invocations"`
	Publish float64 `json:"publish_invocations"`
	// Standard and FIFO count requests to queues: those of senders and functions, and those with
	// which Lambda receives and deletes messages.
	Standard float64 `json:"sqs_standard_requests"`
	FIFO     float64 `json:"sqs_fifo_requests"`
	// WriteUnits and ReadUnits are those of DynamoDB.
	WriteUnits float64 `json:"write_units"`
	ReadUnits  float64 `json:"read_units"`
	// LogBytes is the size of the lines that the functions log, metrics included.
	LogBytes float64 `json:"log_bytes"`
}

// Per returns the counts of one of n messages.
func (c Counts) Per(n int) Counts {
	d := float64(n)
	return Counts{c.API / d, c.Ingest / d, c.Process / d, c.Publish / d, c.Standard / d, c.FIFO / d, c.WriteUnits / d, c.ReadUnits / d, c.LogBytes / d}
}

// Times returns the counts of n messages.
func (c Counts) Times(n float64) Counts {
	return Counts{c.API * n, c.Ingest * n, c.Process * n, c.Publish * n, c.Standard * n, c.FIFO * n, c.WriteUnits * n, c.ReadUnits * n, c.LogBytes * n}
}

// Invocations returns the number of invocations of all functions.
func (c Counts) Invocations() float64 { return c.Ingest + c.Process + c.Publish }

// Measured returns the usage that a test counted.
func Measured() Usage {
	var u Usage
	if err := json.Unmarshal(usage, &u); err != nil {
		panic(fmt.Sprintf("bill: usage.json: %v", err)) // a test reads it
	}
	return u
}
