// Package onlambda opens a system on DynamoDB and SQS and serves one of its three functions on AWS Lambda, with the handlers of your own program:
//
//	sys, err := onlambda.Open(ctx, onlambda.Options{})
//	...
//	once.Handle(sys, "transfers", transfer)
//	err = sys.Run(ctx)
//
// Built as a bootstrap and named to the deployment, it takes the place of the function that comes with once. The same handlers run on a laptop when package embedded opens
// the system.
//
// # Environment
//
// The deployment sets the variables that name tables, queues and configuration; Open names each one that is missing.
//
// # Configuration
//
// The other functions know the configuration file only, and admit, route, hold and remember by what it says. So every stream that the program handles has to be in once.yaml, and
// what the program declares of its admission, order, retention, gap policy and bounds must be what stands there: a system that says otherwise does not start, with an error that
// names the stream and the setting. How long a group's state is kept may be said in code alone: it is written with the state.
//
// One-time requests run in the function behind the API: a program that handles those is built with Options{Function: Ingest} too, and takes that function's place as well.
//
// # Limits
//
// Run does not return: Lambda ends the process.
package onlambda

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/internal/lambda"
)

// A Function is one of the three functions of a deployment.
type Function = lambda.Function

// The functions.
const (
	// Process runs handlers: it is behind the ingress queues. It is the one that a program with handlers takes the place of.
	Process = lambda.Process
	// Ingest takes messages and requests in over HTTP. One-time requests run their handlers here.
	Ingest = lambda.Ingest
	// Publish sends effects to their destinations.
	Publish = lambda.Publish
)

// Options of a function. The zero value is Process.
type Options struct {
	// Function defaults to Process.
	Function Function
	// Log defaults to JSON on standard output, with the request's id.
	Log *slog.Logger
}

// Open reads the function's environment. It calls no service.
func Open(ctx context.Context, o Options) (*once.System, error) {
	switch o.Function {
	case "":
		o.Function = Process
	case Ingest, Process, Publish:
	default:
		return nil, fmt.Errorf("open function: there is no function %q: ingest, process and publish are", o.Function)
	}
	if o.Log == nil {
		o.Log = lambda.NewLog()
	}
	b, err := lambda.NewBackend(ctx, o.Function, o.Log)
	if err != nil {
		return nil, fmt.Errorf("open function: %w", err)
	}
	return once.New(b), nil
}
