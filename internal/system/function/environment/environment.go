// Package environment is how the functions are configured: the variables of their environment, and
// the settings in them. The functions read them, and the command line compares them with the stack.
package environment

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
)

// The environment of the functions. All three have the same variables, and all are required, except
// the bucket and the dead-letter queues that only a redrive reads.
const (
	// Config is the configuration: a path, or the text itself, which then has more than one
	// line. See package config.
	Config = "ONCE_CONFIG"

	GroupsTable = "ONCE_GROUPS_TABLE"
	TokensTable = "ONCE_TOKENS_TABLE" //nolint:gosec // the name of a table

	IngressQueue     = "ONCE_INGRESS_QUEUE_URL"      // standard
	IngressFIFOQueue = "ONCE_INGRESS_FIFO_QUEUE_URL" // first-in-first-out
	PublishQueue     = "ONCE_PUBLISH_QUEUE_URL"      // standard: triggers with a delay
	// first-in-first-out: all other triggers, one publisher a group
	PublishFIFOQueue = "ONCE_PUBLISH_FIFO_QUEUE_URL"
	DeadQueue        = "ONCE_DEAD_QUEUE_URL"         // standard: refused messages
	DeadPublishQueue = "ONCE_DEAD_PUBLISH_QUEUE_URL" // standard: refused effects

	// DeadFIFOQueue and DeadPublishFIFOQueue are first-in-first-out: SQS moves messages there
	// that were received too often. If they are missing, a redrive does not serve them.
	DeadFIFOQueue        = "ONCE_DEAD_FIFO_QUEUE_URL"
	DeadPublishFIFOQueue = "ONCE_DEAD_PUBLISH_FIFO_QUEUE_URL"

	// SourceQueues lists, with commas, the sources of the configuration and the names of their
	// queues, as in orders=NAME. They are beside the queue of IngressQueue.
	SourceQueues = "ONCE_SOURCE_QUEUES"

	// Handlers lists, with commas, streams and the Lambda functions of the deployment that handle
	// them, as in orders=ARN. They replace those of the configuration.
	Handlers = "ONCE_HANDLERS"

	// Bucket names the bucket for blobs and for values that are too large for a record. If it is
	// missing, handlers can't make blobs, and too large a value is refused.
	Bucket = "ONCE_BUCKET"

	// TrustedSenders lists, with commas, the role ids of the system's own functions. Only these
	// may set the principal under which a message was accepted. If it were missing, every message
	// that came by HTTP would be processed under another identity than that of its token.
	TrustedSenders = "ONCE_TRUSTED_SENDERS"
)

// Settings are the functions' settings from their environment.
type Settings struct {
	Config  *config.Config
	Tables  dynamostore.Tables
	Queues  Queues
	Bucket  string // empty if there is none
	Trusted []string
}

// Queues are the queues of a deployment.
type Queues struct {
	Ingress, IngressFIFO string
	Publish, PublishFIFO string
	Dead, DeadPublish    string
	// DeadFIFO and DeadPublishFIFO are read by a redrive only; if they are empty, it does not serve
	// them.
	DeadFIFO, DeadPublishFIFO string
	// Sources has the URLs of the queues of sources by the names of the sources.
	Sources map[string]string
}

// Read reads the environment by a function such as os.Getenv. The error names every missing
// variable.
func Read(getenv func(string) string) (Settings, error) {
	s := Settings{Bucket: getenv(Bucket), Queues: Queues{DeadFIFO: getenv(DeadFIFOQueue), DeadPublishFIFO: getenv(DeadPublishFIFOQueue)}}
	var text string
	var errs []error
	for _, v := range []struct {
		name string
		to   *string
	}{
		{Config, &text},
		{GroupsTable, &s.Tables.Groups},
		{TokensTable, &s.Tables.Tokens},
		{IngressQueue, &s.Queues.Ingress},
		{IngressFIFOQueue, &s.Queues.IngressFIFO},
		{PublishQueue, &s.Queues.Publish},
		{PublishFIFOQueue, &s.Queues.PublishFIFO},
		{DeadQueue, &s.Queues.Dead},
		{DeadPublishQueue, &s.Queues.DeadPublish},
	} {
		if *v.to = getenv(v.name); *v.to == "" {
			errs = append(errs, fmt.Errorf("%s is not set", v.name))
		}
	}
	var err error
	if s.Trusted, err = trusted(getenv(TrustedSenders)); err != nil {
		errs = append(errs, err)
	}
	if s.Queues.Sources, err = ReadSources(getenv(SourceQueues), s.Queues.Ingress); err != nil {
		errs = append(errs, err)
	}
	if text != "" {
		if s.Config, err = configured(text, getenv(Handlers)); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Settings{}, fmt.Errorf("read environment: %w", err)
	}
	return s, nil
}

// trusted reads a list of role ids. If one is empty, it returns an error: a variable of a template
// may have had no value.
func trusted(list string) ([]string, error) {
	if list == "" {
		return nil, fmt.Errorf("%s is not set", TrustedSenders)
	}
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == "" {
			return nil, fmt.Errorf("%s has an empty item", TrustedSenders)
		}
		out = append(out, item)
	}
	return out, nil
}

// ReadSources reads the value of [SourceQueues]: the URLs of the queues of the sources by the
// names of these. They differ from the URL of another queue of the system in the name only.
func ReadSources(list, beside string) (map[string]string, error) {
	if list == "" {
		return nil, nil
	}
	out := map[string]string{}
	base := beside[:strings.LastIndexByte(beside, '/')+1]
	for item := range strings.SplitSeq(list, ",") {
		source, name, _ := strings.Cut(strings.TrimSpace(item), "=")
		if source == "" || name == "" || out[source] != "" {
			return nil, fmt.Errorf("%s must be NAME=QUEUE, with commas, each name once; it has %q", SourceQueues, item)
		}
		out[source] = base + name
	}
	return out, nil
}

// WithoutQueue returns the sources of the configuration that have no queue, in the order of their
// names. A template makes the queues, so they are missing if it was made for another configuration.
func (q Queues) WithoutQueue(c *config.Config) []string {
	var names []string
	for _, name := range c.IngressNames() {
		if q.Sources[name] == "" {
			names = append(names, name)
		}
	}
	return names
}

// ByQueue returns the names of the sources by the names of their queues.
func (q Queues) ByQueue() map[string]string {
	out := map[string]string{}
	for name, url := range q.Sources {
		out[path.Base(url)] = name
	}
	return out
}

// configured returns the configuration, with the handlers that the deployment sets.
func configured(text, handlers string) (*config.Config, error) {
	c, err := readConfig(text)
	if err != nil {
		return nil, err
	}
	functions, err := handlerFunctions(handlers)
	if err == nil {
		err = c.SetFunctions(functions)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Handlers, err)
	}
	return c, nil
}

// handlerFunctions reads the value of [Handlers]: functions by the names of streams.
func handlerFunctions(list string) (map[string]string, error) {
	if list == "" {
		return nil, nil
	}
	out := map[string]string{}
	for item := range strings.SplitSeq(list, ",") {
		stream, function, _ := strings.Cut(strings.TrimSpace(item), "=")
		if stream == "" || out[stream] != "" {
			return nil, fmt.Errorf("must be STREAM=FUNCTION, with commas, each stream once; it has %q", item)
		}
		if _, err := config.ParseFunction(function); err != nil {
			return nil, err
		}
		out[stream] = function
	}
	return out, nil
}

func readConfig(text string) (*config.Config, error) {
	if strings.Contains(text, "\n") {
		return config.Parse(Config, []byte(text))
	}
	return config.Load(text)
}
