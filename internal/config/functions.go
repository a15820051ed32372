package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Function is a Lambda function that is called, by its name or ARN.
type Function struct {
	// Name is the name, with :QUALIFIER if it has one: an alias or a version.
	Name string
	// Region and Account are those of an ARN, and empty for a name: then the function is in the
	// account and the region of the system.
	Region, Account string
}

// The limits of Lambda on the length of a name and of its qualifier. They are not in functionName:
// regexp copies an expression for each repetition, which takes long to compile.
const (
	maxFunctionName = 64
	maxQualifier    = 128
)

//nolint:gochecknoglobals // constants, compiled when they are needed
var (
	functionName = expression(`^([A-Za-z0-9_-]+)(?::(\$LATEST|[A-Za-z0-9_-]+))?$`)
	functionARN  = expression(`^arn:[a-z0-9-]+:lambda:([a-z0-9-]+):([0-9]{12}):function:(.*)$`)
)

// ParseFunction reads the name or ARN of a function, each with or without :QUALIFIER.
func ParseFunction(text string) (Function, error) {
	f := Function{Name: text}
	if parts := functionARN().FindStringSubmatch(text); parts != nil {
		f = Function{Region: parts[1], Account: parts[2], Name: parts[3]}
	}
	if parts := functionName().FindStringSubmatch(f.Name); parts == nil || len(parts[1]) > maxFunctionName || len(parts[2]) > maxQualifier {
		return Function{}, fmt.Errorf("function %q: %s", text, functionRule)
	}
	return f, nil
}

// functionRule is the rule for the name of a function.
const functionRule = "must be the name or ARN of a function, such as orders, orders:ALIAS or arn:aws:lambda:REGION:ACCOUNT:function:orders"

// SetFunctions sets the Lambda functions that handle streams, by the names of the streams. It is
// for the functions that a deployment creates: a configuration can't name their ARNs. A function
// replaces the one that the configuration names; the other settings of the handler stay. The error
// names each stream that does not exist, that has a pool, or whose handler is of another kind.
func (c *Config) SetFunctions(functions map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		h, handled := c.Handlers[name]
		s, ok := c.Streams[name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("%s: there is no stream %q%s", join("handlers", name), name, known(c.StreamNames())))
		case s.Pool != nil:
			errs = append(errs, fmt.Errorf("%s: the stream has a pool, whose entries are for sessions: a stream has a handler or a pool", join("handlers", name)))
		case handled && h.Kind() != HandlerLambda && h.Kind() != HandlerCode:
			errs = append(errs, fmt.Errorf("%s: the configuration has %s, and the deployment sets a function: a stream has one handler", join("handlers", name), h.Kind()))
		default:
			if c.Handlers == nil {
				c.Handlers = map[string]Handler{}
			}
			h.Lambda = functions[name]
			c.Handlers[name] = h
		}
	}
	return errors.Join(errs...)
}

// handlerMargin is the part of a function's timeout that is not for its handlers: the time to load
// and to commit, to move dead letters, and to answer.
const handlerMargin = 4 * time.Second

// functionTimeout is the default timeout of the process function.
const functionTimeout = 30 * time.Second

// CheckTimeouts returns an error for each handler whose timeout does not fit into that of the
// function that calls it: the process function, or for a direct stream also the ingest function.
// Lambda would end the function while the handler may still answer in time.
func (c *Config) CheckTimeouts(process, ingest time.Duration) error {
	var errs []error
	for _, name := range c.HandlerNames() {
		timeout, path := c.Handlers[name].WithDefaults().Timeout.Std(), join("handlers", name)+".timeout"
		switch direct := c.Streams[name].Direct; {
		case timeout > process-handlerMargin:
			errs = append(errs, fmt.Errorf("%s: %v does not fit into the timeout of the process function, which is %v: lower it to at most %v, or raise the timeout of the functions to at least %v",
				path, Duration(timeout), Duration(process), Duration(process-handlerMargin), Duration(timeout+handlerMargin)))
		case direct != nil && *direct && timeout > ingest-handlerMargin:
			errs = append(errs, fmt.Errorf("%s: %v does not fit into the timeout of the ingest function, which is %v because API Gateway waits no longer: lower it to at most %v, or set streams.%s.direct to false",
				path, Duration(timeout), Duration(ingest), Duration(ingest-handlerMargin), name))
		}
	}
	return errors.Join(errs...)
}
