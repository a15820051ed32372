// Package onlambda opens a system on DynamoDB and SQS and serves one of its three functions on AWS
// Lambda, with the handlers of your own program:
//
//	sys, err := onlambda.Open(ctx, onlambda.Options{})
//	...
//	once.Handle(sys, "transfers", transfer)
//	err = sys.Run(ctx)
//
// Build the program as a bootstrap and pass it to the deployment, which uses it instead of the
// function that comes with once. The same handlers run on a laptop if package embedded opens the
// system.
//
// # Environment
//
// The deployment sets the variables that name tables, queues and configuration; if some are
// missing, Open returns an error that names them.
//
// # Configuration
//
// The other functions read only the configuration file: it controls admission, order, routing, held
// messages and retention. So every stream with a handler has to be in once.yaml. If the program
// declares another admission, order, retention, gap policy or bounds than the file, the system does
// not start, and the error names the stream and the setting. The time for which a group's state is
// kept may be set in code alone, because it is stored with the state.
//
// One-time requests run in the function behind the API. If the program handles those, build it a
// second time with Options{Function: Ingest}, and use that build for the API's function.
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
	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/function"
)

// A Function is one of the three functions of a deployment.
type Function string

// The functions.
const (
	// Process runs handlers for the ingress queues. A program with handlers usually replaces this
	// function.
	Process Function = "process"
	// Ingest accepts messages and requests over HTTP. One-time requests run their handlers here.
	Ingest Function = "ingest"
	// Publish sends effects to their destinations.
	Publish Function = "publish"
)

// Options configure a function. The zero value is Process.
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
		return nil, fmt.Errorf("open function: unknown function %q: it must be ingest, process or publish", o.Function)
	}
	if o.Log == nil {
		o.Log = function.NewLog()
	}
	cfg, err := awsconfig.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("open function: read AWS settings: %w", err)
	}
	b, err := function.NewBackend(cfg, function.Function(o.Function), o.Log)
	if err != nil {
		return nil, fmt.Errorf("open function: %w", err)
	}
	return system.New(b).(*once.System), nil
}
