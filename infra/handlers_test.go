package infra

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
	"github.com/google/go-cmp/cmp"
)

const handlersConfig = `
streams: {orders: {}, refunds: {}, mail: {}, stock: {}}
handlers:
  refunds: {lambda: "refunds:live", timeout: 5s}
  mail:    {url: "https://mail.example/once", secret: "secretsmanager:arn:aws:secretsmanager:eu-central-1:123456789012:secret:mail-AbCdEf"}
  stock:   {lambda: "arn:aws:lambda:eu-west-1:210987654321:function:stock"}
`

// handled returns a stack whose pipeline calls functions of the configuration, and one of the app.
func handled(t *testing.T) *template {
	t.Helper()
	stack := awscdk.NewStack(NewApp(), jsii.String("Shop"), nil)
	orders := awslambda.NewFunction(stack, jsii.String("OrdersHandler"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_PYTHON_3_13(), Handler: jsii.String("index.handle"), Code: awslambda.Code_FromInline(jsii.String("def handle(event, context): pass")),
	})
	pipelineIn(t, stack, "Pipeline", PipelineProps{Config: handlersConfig, Handlers: map[string]awslambda.IFunction{"orders": orders}})
	return templateOf(t, stack)
}

func TestTheFunctionsThatRunHandlersMayInvokeTheNamedOnesAndNoOther(t *testing.T) {
	x := handled(t)
	orders, _ := x.one(t, functionType, "OrdersHandler")
	want := []string{
		asJSON(arn("lambda", "function:refunds:live")), asJSON(arnOf(orders)), "arn:aws:lambda:eu-west-1:210987654321:function:stock",
	}
	slices.Sort(want)
	for _, f := range []string{"Ingest", "Process", "Publish"} {
		var invoked, secrets []string
		for _, s := range statements(x) {
			if !strings.HasPrefix(s.where, "Pipeline"+f+"Role") {
				continue
			}
			if slices.Contains(s.actions, "lambda:InvokeFunction") {
				invoked = append(invoked, s.resources...)
			}
			if slices.Contains(s.actions, "secretsmanager:GetSecretValue") {
				secrets = append(secrets, s.resources...)
			}
		}
		slices.Sort(invoked)
		if f == "Publish" {
			if len(invoked)+len(secrets) > 0 {
				t.Errorf("publish runs no handler, and may invoke %v and read %v", invoked, secrets)
			}
			continue
		}
		if diff := cmp.Diff(want, invoked); diff != "" {
			t.Errorf("%s may invoke (-want +got)\n%s", f, diff)
		}
		if len(secrets) != 1 || !strings.HasSuffix(secrets[0], "secret:mail-AbCdEf") {
			t.Errorf("%s may read the secrets %v, want that of the handler with a URL", f, secrets)
		}
	}
	if got := wildcards(x); got != nil {
		t.Errorf("wildcards %v, want none", got)
	}
}

func TestTheFunctionsKnowTheARNsOfTheHandlersOfTheApp(t *testing.T) {
	x := handled(t)
	orders, _ := x.one(t, functionType, "OrdersHandler")
	for _, f := range []string{"PipelineIngest", "PipelineProcess", "PipelinePublish"} {
		id, r := x.one(t, functionType, f)
		r.expect(t, id, map[string]any{"Environment.Variables.ONCE_HANDLERS": map[string]any{"Fn::Join": []any{"", []any{"orders=", arnOf(orders)}}}})
	}
	for _, id := range synth(t).all(t, functionType, 3) {
		synth(t).Resources[id].expect(t, id, map[string]any{"Environment.Variables.ONCE_HANDLERS": nil})
	}
}

func TestAHandlerThatAPipelineCanNotCallIsRefused(t *testing.T) {
	stack := awscdk.NewStack(NewApp(), jsii.String("Shop"), nil)
	function := awslambda.Function_FromFunctionName(stack, jsii.String("F"), jsii.String("f"))
	for want, c := range map[string]struct {
		config string
		props  PipelineProps
	}{
		"handlers.orders.exec: works in once dev only": {config: "streams: {orders: {}}\nhandlers: {orders: {exec: python3 x.py}}\n"},
		"handlers.orders.secret: the functions have no variable S": {
			config: "streams: {orders: {}}\nhandlers: {orders: {url: \"https://x.example\", secret: \"env:S\"}}\n",
		},
		"handlers.orders.timeout: 27s does not fit into the timeout of the process function, which is 30s": {
			config: "streams: {orders: {}}\nhandlers: {orders: {lambda: f, timeout: 27s}}\n",
		},
		"handlers.orders.timeout: 26s does not fit into the timeout of the ingest function, which is 29s": {
			config: "streams: {orders: {direct: true, order: none}}\nhandlers: {orders: {lambda: f, timeout: 26s}}\n", props: PipelineProps{Timeout: time.Minute},
		},
		`handlers.order: there is no stream "order"`: {
			config: "streams: {orders: {}}\n", props: PipelineProps{Handlers: map[string]awslambda.IFunction{"order": function}},
		},
		"handlers.orders: the configuration has url": {
			config: "streams: {orders: {}}\nhandlers: {orders: {url: \"https://x.example\"}}\n", props: PipelineProps{Handlers: map[string]awslambda.IFunction{"orders": function}},
		},
		"handlers.orders: there is no function": {
			config: "streams: {orders: {}}\n", props: PipelineProps{Handlers: map[string]awslambda.IFunction{"orders": nil}},
		},
	} {
		c.props.Config = c.config
		if _, err := NewPipeline(stack, "P", &c.props); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
