package infra

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
	"github.com/google/go-cmp/cmp"
)

// pipelineIn returns a pipeline with an id in a stack, with functions that are empty.
func pipelineIn(t *testing.T, stack awscdk.Stack, id string, props PipelineProps) *Pipeline {
	t.Helper()
	props.Assets = bootstraps(t)
	orElse(&props.Config, "streams: {orders: {}}\n")
	p, err := NewPipeline(stack, id, &props)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTwoPipelinesOfAStackHaveTheirOwnOutputs(t *testing.T) {
	stack := awscdk.NewStack(NewApp(), jsii.String("Shop"), nil)
	for _, id := range []string{"Orders", "late-orders"} {
		NewOutputs(pipelineIn(t, stack, id, PipelineProps{}))
	}
	x := templateOf(t, stack)
	plain := synth(t).Outputs
	var want []string
	for _, name := range slices.Sorted(maps.Keys(plain)) {
		want = append(want, "LateOrders"+name, "Orders"+name)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(x.Outputs))); diff != "" {
		t.Errorf("outputs (-want +got)\n%s", diff)
	}
	for prefix, part := range map[string]string{"Orders": "Orders", "LateOrders": "lateorders"} {
		id, _ := x.one(t, tableType, part+"TablesGroups")
		if got := asJSON(x.Outputs[prefix+"GroupsTable"].Value); got != asJSON(ref(id)) {
			t.Errorf("%sGroupsTable is %s, want %s", prefix, got, id)
		}
	}
}

func TestThePipelinesOfAnAppHaveTheirOwnMetrics(t *testing.T) {
	app := NewApp()
	var namespaces []string
	for _, name := range []string{"Shop", "ShopTest"} {
		stack := awscdk.NewStack(app, jsii.String(name), nil)
		for _, id := range []string{"Orders", "Bills & more"} {
			p := pipelineIn(t, stack, id, PipelineProps{})
			namespaces = append(namespaces, p.MetricsNamespace)
			if got := *p.Metric("Processed", nil).Namespace(); got != p.MetricsNamespace {
				t.Errorf("the metric is in %s, the pipeline in %s", got, p.MetricsNamespace)
			}
		}
	}
	want := []string{"Shop/Orders", "Shop/Bills---more", "ShopTest/Orders", "ShopTest/Bills---more"}
	if diff := cmp.Diff(want, namespaces); diff != "" {
		t.Errorf("namespaces (-want +got)\n%s", diff)
	}
}

func TestAPipelineIsAConstruct(t *testing.T) {
	stack := awscdk.NewStack(NewApp(), jsii.String("Shop"), nil)
	p := pipelineIn(t, stack, "Orders", PipelineProps{})
	awssqs.NewQueue(p, jsii.String("Audit"), nil)
	awscdk.Tags_Of(p).Add(jsii.String("team"), jsii.String("orders"), nil)
	x := templateOf(t, stack)
	id, audit := x.one(t, queueType, "Audit")
	audit.expect(t, id, map[string]any{"Tags": []any{map[string]any{"Key": "team", "Value": "orders"}}})
	if !strings.HasPrefix(id, "Orders") {
		t.Errorf("%s is not in the pipeline", id)
	}
}

func TestAPipelineExposesItsAPI(t *testing.T) {
	stack := awscdk.NewStack(NewApp(), jsii.String("Shop"), nil)
	http := pipelineIn(t, stack, "Http", PipelineProps{}).API
	if http.HTTP == nil || http.HTTPStage == nil || http.Logs == nil || http.REST != nil || http.RESTStage != nil {
		t.Errorf("HTTP API: %+v", http)
	}
	rest := pipelineIn(t, stack, "Rest", PipelineProps{API: APISettings{Kind: REST}}).API
	if rest.REST == nil || rest.RESTStage == nil || rest.Logs == nil || rest.HTTP != nil || rest.HTTPStage != nil {
		t.Errorf("REST API: %+v", rest)
	}
}
