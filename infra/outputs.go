package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/internal/config"
)

// NewOutputs adds the outputs by which the command line finds a pipeline to the stack of the
// pipeline. Their names begin with the pipeline's id, each word with a capital, so that a stack can
// have several pipelines: once send --stack Shop/Orders finds the pipeline Orders of the stack
// Shop.
func NewOutputs(p *Pipeline) {
	newOutputs(p, config.OutputName(*p.Node().Id()))
}

// newOutputs adds the outputs of the only pipeline of a stack if prefix is empty.
func newOutputs(p *Pipeline, prefix string) {
	stack := awscdk.Stack_Of(p)
	output := func(name string, value *string) {
		awscdk.NewCfnOutput(stack, jsii.String(prefix+name), &awscdk.CfnOutputProps{Value: value})
	}
	output("ApiUrl", p.API.URL)
	output("GroupsTable", p.Tables.Groups.TableName())
	output("TokensTable", p.Tables.Tokens.TableName())
	output("Bucket", p.Bucket.BucketName())
	work, dead := p.Queues.all()
	for _, n := range append(work, dead...) {
		output(n.name+"QueueUrl", n.queue.QueueUrl())
	}
	for _, n := range p.Queues.sources {
		output(n.name+"QueueArn", n.queue.QueueArn())
	}
	output("ProcessFunction", p.Process.FunctionName())
	output("PublishFunction", p.Publish.FunctionName())
	if len(p.API.KeyIDs) > 0 {
		output("ApiKeyIds", awscdk.Fn_Join(jsii.String(","), &p.API.KeyIDs))
	}
}
