package deployed

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/effectively-once/once/internal/config"
)

func TestTheHandlersOfAStackAreNeitherOpenedNorCalledFromOutside(t *testing.T) {
	const text = "streams: {orders: {}, mail: {}}\nhandlers:\n  orders: {lambda: orders}\n  mail: {url: \"https://mail.example\", secret: \"env:SECRET_THAT_IS_NOT_SET\"}\n"
	c, err := config.Parse("once.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	settings := aws.Config{Region: "eu-central-1"}
	stack := &Stack{config: settings, dynamodb: dynamodb.NewFromConfig(settings), sqs: sqs.NewFromConfig(settings), Outputs: Outputs{GroupsTable: "groups", TokensTable: "tokens", Bucket: "bucket"}}
	s, err := stack.System(SystemOptions{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.configured(t.Context())
	if err != nil {
		t.Fatalf("got %v, want an engine without the handlers and their secrets", err)
	}
	if len(p.config.Handlers) != 2 {
		t.Errorf("the configuration has the handlers %v, want both", p.config.HandlerNames())
	}
}
