package infra_test

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/infra"
)

// A pipeline in your own app, with your own handlers, in a stack that may have other resources.
func ExampleNewPipeline() {
	defer jsii.Close()
	app := infra.NewApp()
	stack := awscdk.NewStack(app, jsii.String("Shop"), nil)
	pipeline, err := infra.NewPipeline(stack, "Orders", &infra.PipelineProps{
		Config: "streams: {orders: {destinations: [events]}}\ndestinations: {events: {eventbridge: default}}\n",
		Assets: "../dist", ProcessFunction: "own/process", // each has a file bootstrap
	})
	if err != nil {
		panic(err)
	}
	infra.NewOutputs(pipeline) // once send --stack Shop/Orders
	alarms, err := infra.NewAlarms(stack, "Alarms", pipeline, nil)
	if err != nil {
		panic(err)
	}
	infra.NewDashboard(stack, "Dashboard", pipeline, alarms)
	app.Synth(nil)
}
