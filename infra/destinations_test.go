package infra

import (
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/internal/aws/permission"
	"github.com/effectively-once/once/internal/config"
)

// allowed returns the permissions of a destination, one a line.
func TestAQueueGivenByURLIsInThePartitionOfTheStack(t *testing.T) {
	list, err := permission.Of(config.Destination{SQS: "https://sqs.cn-north-1.amazonaws.com.cn/123456789012/billing"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	stack := awscdk.NewStack(NewApp(), jsii.String("S"), nil)
	got := asJSON(stack.Resolve(arnIn(stack, list[0].Resource)))
	if want := `{"Fn::Join":["",["arn:",{"Ref":"AWS::Partition"},":sqs:cn-north-1:123456789012:billing"]]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestADirectStreamThatAStackCannotServeIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		props  PipelineProps
		want   string
	}{
		"order of a queue":             {stream: "{direct: true}", want: "streams.orders.direct: on AWS needs order: none or admission: sequence"},
		"handlers in one program only": {stream: "{direct: true, order: none}", props: PipelineProps{ProcessFunction: "own/process"}, want: "streams.orders.direct: the ingest function processes messages itself"},
	} {
		c.props.Config = "streams:\n  orders: " + c.stream + "\n"
		if _, err := NewPipeline(NewApp(), "P", &c.props); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	own := &PipelineProps{ProcessFunction: "own/process", IngestFunction: "own/process"}
	for name, set := range map[string]bool{"handlers in both programs": true, "not direct": false} {
		c := &config.Config{Streams: map[string]config.Stream{"orders": {Direct: &set}}}
		if err := own.withDefaults().checkDirect(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnUnreadableConfigurationIsAnErrorThatNamesTheLine(t *testing.T) {
	_, err := NewPipeline(NewApp(), "P", &PipelineProps{Config: "streams:\n  orders: {destinatoins: []}\n"})
	if err == nil || !strings.Contains(err.Error(), "once.yaml:2") {
		t.Errorf("got %v", err)
	}
}
