package deployed

import (
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/system/function/tasks"
)

// Outputs are the outputs of a stack, under the same names. All but the functions are required.
type Outputs struct {
	// APIURL is the address of the API, with its stage if it has one.
	APIURL string
	// GroupsTable and TokensTable are names of tables.
	GroupsTable, TokensTable string
	// Bucket is the name of the bucket of blobs.
	Bucket string
	// The queues, by their URLs: messages, triggers, and the dead-letter queues of both.
	IngressQueueURL, IngressFIFOQueueURL         string
	PublishQueueURL, PublishFIFOQueueURL         string
	DeadQueueURL, DeadFIFOQueueURL               string
	DeadPublishQueueURL, DeadPublishFIFOQueueURL string
	// ProcessFunction and PublishFunction are the functions that put dead letters back, by their
	// names.
	ProcessFunction, PublishFunction string
}

// output is one output and where its value belongs.
type output struct {
	name string
	to   *string
}

func (o *Outputs) list() []output {
	return []output{
		{"ApiUrl", &o.APIURL},
		{"GroupsTable", &o.GroupsTable},
		{"TokensTable", &o.TokensTable},
		{"Bucket", &o.Bucket},
		{"IngressQueueUrl", &o.IngressQueueURL},
		{"IngressFifoQueueUrl", &o.IngressFIFOQueueURL},
		{"PublishQueueUrl", &o.PublishQueueURL},
		{"PublishFifoQueueUrl", &o.PublishFIFOQueueURL},
		{"DeadQueueUrl", &o.DeadQueueURL},
		{"DeadFifoQueueUrl", &o.DeadFIFOQueueURL},
		{"DeadPublishQueueUrl", &o.DeadPublishQueueURL},
		{"DeadPublishFifoQueueUrl", &o.DeadPublishFIFOQueueURL},
	}
}

// A place is a queue of the stack, by the name that it has in a data folder too.
type place struct{ name, url string }

// work and dead return the queues.
func (o *Outputs) work() []place {
	return []place{
		{"ingress", o.IngressQueueURL},
		{"ingress.fifo", o.IngressFIFOQueueURL},
		{"publish", o.PublishQueueURL},
		{"publish.fifo", o.PublishFIFOQueueURL},
	}
}

func (o *Outputs) dead() []place {
	return []place{
		{tasks.DeadIngress, o.DeadQueueURL},
		{tasks.DeadIngressFIFO, o.DeadFIFOQueueURL},
		{tasks.DeadPublish, o.DeadPublishQueueURL},
		{tasks.DeadPublishFIFO, o.DeadPublishFIFOQueueURL},
	}
}

// read takes the outputs with a prefix and returns the names of the missing outputs.
func (o *Outputs) read(values map[string]string, prefix string) (missing []string) {
	for _, x := range o.list() {
		if *x.to = values[prefix+x.name]; *x.to == "" {
			missing = append(missing, prefix+x.name)
		}
	}
	o.ProcessFunction, o.PublishFunction = values[prefix+"ProcessFunction"], values[prefix+"PublishFunction"]
	return missing
}

// A candidate is one system of a stack. The names of its outputs have a prefix if a stack can have
// several.
type candidate struct {
	prefix  string
	outputs Outputs
	missing []string
}

// A stackOutput is an output as CloudFormation has it.
type stackOutput struct {
	Key   string `xml:"OutputKey"`
	Value string `xml:"OutputValue"`
}

// candidates returns the system without a prefix, even if all its outputs are missing, and then one
// for each prefix of an ApiUrl.
func candidates(from []stackOutput) []candidate {
	values := map[string]string{}
	prefixes := []string{""}
	for _, out := range from {
		values[out.Key] = out.Value
		if prefix, ok := strings.CutSuffix(out.Key, "ApiUrl"); ok && prefix != "" {
			prefixes = append(prefixes, prefix)
		}
	}
	slices.Sort(prefixes)
	all := make([]candidate, len(prefixes))
	for i, prefix := range prefixes {
		all[i].prefix = prefix
		all[i].missing = all[i].outputs.read(values, prefix)
	}
	return all
}
