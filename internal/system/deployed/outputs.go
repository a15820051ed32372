package deployed

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	system "github.com/effectively-once/once/internal/system/function"
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
		{system.DeadIngress, o.DeadQueueURL},
		{system.DeadIngressFIFO, o.DeadFIFOQueueURL},
		{system.DeadPublish, o.DeadPublishQueueURL},
		{system.DeadPublishFIFO, o.DeadPublishFIFOQueueURL},
	}
}

// read takes the outputs of a stack and returns the names of the missing outputs.
func (o *Outputs) read(from []types.Output) (missing []string) {
	values := map[string]string{}
	for _, out := range from {
		values[aws.ToString(out.OutputKey)] = aws.ToString(out.OutputValue)
	}
	for _, x := range o.list() {
		if *x.to = values[x.name]; *x.to == "" {
			missing = append(missing, x.name)
		}
	}
	o.ProcessFunction, o.PublishFunction = values["ProcessFunction"], values["PublishFunction"]
	return missing
}
