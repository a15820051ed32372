package function

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
	// EnvConfig is the configuration: a path, or the text itself, which then has more than one
	// line. See package config.
	EnvConfig = "ONCE_CONFIG"

	EnvGroupsTable = "ONCE_GROUPS_TABLE"
	EnvTokensTable = "ONCE_TOKENS_TABLE" //nolint:gosec // the name of a table

	EnvIngressQueue     = "ONCE_INGRESS_QUEUE_URL"      // standard
	EnvIngressFIFOQueue = "ONCE_INGRESS_FIFO_QUEUE_URL" // first-in-first-out
	EnvPublishQueue     = "ONCE_PUBLISH_QUEUE_URL"      // standard: triggers with a delay
	// first-in-first-out: all other triggers, one publisher a group
	EnvPublishFIFOQueue = "ONCE_PUBLISH_FIFO_QUEUE_URL"
	EnvDeadQueue        = "ONCE_DEAD_QUEUE_URL"         // standard: refused messages
	EnvDeadPublishQueue = "ONCE_DEAD_PUBLISH_QUEUE_URL" // standard: refused effects

	// EnvDeadFIFOQueue and EnvDeadPublishFIFOQueue are first-in-first-out: SQS moves messages there
	// that were received too often. If they are missing, a redrive does not serve them.
	EnvDeadFIFOQueue        = "ONCE_DEAD_FIFO_QUEUE_URL"
	EnvDeadPublishFIFOQueue = "ONCE_DEAD_PUBLISH_FIFO_QUEUE_URL"

	// EnvSourceQueues lists, with commas, the sources of the configuration and the names of their
	// queues, as in orders=NAME. They are beside the queue of EnvIngressQueue.
	EnvSourceQueues = "ONCE_SOURCE_QUEUES"

	// EnvHandlers lists, with commas, streams and the Lambda functions of the deployment that handle
	// them, as in orders=ARN. They replace those of the configuration.
	EnvHandlers = "ONCE_HANDLERS"

	// EnvBucket names the bucket for blobs and for values that are too large for a record. If it is
	// missing, handlers can't make blobs, and too large a value is refused.
	EnvBucket = "ONCE_BUCKET"

	// EnvTrustedSenders lists, with commas, the role ids of the system's own functions. Only these
	// may set the principal under which a message was accepted. If it were missing, every message
	// that came by HTTP would be processed under another identity than that of its token.
	EnvTrustedSenders = "ONCE_TRUSTED_SENDERS"
)

// Settings are the functions' settings from their environment.
type Settings struct {
	Config  *config.Config
	Tables  dynamostore.Tables
	Queues  QueueURLs
	Bucket  string // empty if there is none
	Trusted []string
}

// QueueURLs are the queues of a deployment.
type QueueURLs struct {
	Ingress, IngressFIFO string
	Publish, PublishFIFO string
	Dead, DeadPublish    string
	// DeadFIFO and DeadPublishFIFO are read by a redrive only; if they are empty, it does not serve
	// them.
	DeadFIFO, DeadPublishFIFO string
	// Sources has the URLs of the queues of sources by the names of the sources.
	Sources map[string]string
}

// ReadSettings reads the environment by a function such as os.Getenv. The error names every missing
// variable.
func ReadSettings(getenv func(string) string) (Settings, error) {
	s := Settings{Bucket: getenv(EnvBucket), Queues: QueueURLs{DeadFIFO: getenv(EnvDeadFIFOQueue), DeadPublishFIFO: getenv(EnvDeadPublishFIFOQueue)}}
	var text string
	var errs []error
	for _, v := range []struct {
		name string
		to   *string
	}{
		{EnvConfig, &text},
		{EnvGroupsTable, &s.Tables.Groups},
		{EnvTokensTable, &s.Tables.Tokens},
		{EnvIngressQueue, &s.Queues.Ingress},
		{EnvIngressFIFOQueue, &s.Queues.IngressFIFO},
		{EnvPublishQueue, &s.Queues.Publish},
		{EnvPublishFIFOQueue, &s.Queues.PublishFIFO},
		{EnvDeadQueue, &s.Queues.Dead},
		{EnvDeadPublishQueue, &s.Queues.DeadPublish},
	} {
		if *v.to = getenv(v.name); *v.to == "" {
			errs = append(errs, fmt.Errorf("%s is not set", v.name))
		}
	}
	var err error
	if s.Trusted, err = trusted(getenv(EnvTrustedSenders)); err != nil {
		errs = append(errs, err)
	}
	if s.Queues.Sources, err = SourceQueues(getenv(EnvSourceQueues), s.Queues.Ingress); err != nil {
		errs = append(errs, err)
	}
	if text != "" {
		if s.Config, err = configured(text, getenv(EnvHandlers)); err != nil {
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
		return nil, fmt.Errorf("%s is not set", EnvTrustedSenders)
	}
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == "" {
			return nil, fmt.Errorf("%s has an empty item", EnvTrustedSenders)
		}
		out = append(out, item)
	}
	return out, nil
}

// SourceQueues reads the value of [EnvSourceQueues]: the URLs of the queues of the sources by the
// names of these. They differ from the URL of another queue of the system in the name only.
func SourceQueues(list, beside string) (map[string]string, error) {
	if list == "" {
		return nil, nil
	}
	out := map[string]string{}
	base := beside[:strings.LastIndexByte(beside, '/')+1]
	for item := range strings.SplitSeq(list, ",") {
		source, name, _ := strings.Cut(strings.TrimSpace(item), "=")
		if source == "" || name == "" || out[source] != "" {
			return nil, fmt.Errorf("%s must be NAME=QUEUE, with commas, each name once; it has %q", EnvSourceQueues, item)
		}
		out[source] = base + name
	}
	return out, nil
}

// WithoutQueue returns the sources of the configuration that have no queue, in the order of their
// names. A template makes the queues, so they are missing if it was made for another configuration.
func (q QueueURLs) WithoutQueue(c *config.Config) []string {
	var names []string
	for _, name := range c.IngressNames() {
		if q.Sources[name] == "" {
			names = append(names, name)
		}
	}
	return names
}

// byQueue returns the names of the sources by the names of their queues.
func (q QueueURLs) byQueue() map[string]string {
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
		return nil, fmt.Errorf("%s: %w", EnvHandlers, err)
	}
	return c, nil
}

// handlerFunctions reads the value of [EnvHandlers]: functions by the names of streams.
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
		return config.Parse(EnvConfig, []byte(text))
	}
	return config.Load(text)
}
