// Command shop is a CDK app of its own: two pipelines in one stack, in a network and under a key of
// the app. One has a domain, the other a web ACL.
//
// FUNCTIONS is a folder with the folders ingest, process and publish, each with a file bootstrap.
// The context of the CDK may have two settings: emulator=true deploys to an emulator, and
// architecture returns the instruction set of the bootstraps.
package main

import (
	"fmt"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awswafv2"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/infra"
)

const certificate = "arn:aws:acm:eu-central-1:123456789012:certificate/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"

func main() {
	app := infra.NewApp()
	err := shop(app, os.Getenv("FUNCTIONS"))
	if err == nil {
		app.Synth(nil)
	}
	jsii.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

// shop makes the stack.
func shop(app awscdk.App, functions string) error {
	emulator := setting(app, "emulator") == "true"
	architecture := infra.Architecture(setting(app, "architecture"))
	stack := awscdk.NewStack(app, jsii.String("Shop"), nil)
	network := &infra.Network{VPC: awsec2.NewVpc(stack, jsii.String("Vpc"), &awsec2.VpcProps{MaxAzs: jsii.Number(2), NatGateways: jsii.Number(1)})}
	keys := infra.Keys{Default: awskms.NewKey(stack, jsii.String("Key"), &awskms.KeyProps{EnableKeyRotation: jsii.Bool(true)})}

	orders, err := infra.NewPipeline(stack, "Orders", &infra.PipelineProps{
		Config:       "streams: {orders: {destinations: [events]}}\ndestinations: {events: {eventbridge: default}}\n",
		Assets:       functions,
		Architecture: architecture,
		Network:      network,
		Keys:         keys,
		API:          infra.APISettings{CORSOrigins: []string{"https://shop.example"}},
		Emulator:     emulator,
	})
	if err != nil {
		return err
	}
	infra.NewOutputs(orders) // once send --stack Shop/Orders
	addDomain(stack, orders)

	billing, err := infra.NewPipeline(stack, "Billing", &infra.PipelineProps{
		Config:            "streams: {bills: {admission: sequence}}\n",
		Assets:            functions,
		Architecture:      architecture,
		Network:           network,
		Keys:              keys,
		API:               infra.APISettings{Kind: infra.REST, LogsRole: true}, // one in an account and region has the role
		IngestConcurrency: 20,
		Emulator:          emulator,
	})
	if err != nil {
		return err
	}
	infra.NewOutputs(billing) // once send --stack Shop/Billing
	addWebACL(stack, billing)

	topic := awssns.NewTopic(stack, jsii.String("OnCall"), &awssns.TopicProps{EnforceSSL: jsii.Bool(true)})
	refused := awscloudwatch.NewAlarm(stack, jsii.String("Refused"), &awscloudwatch.AlarmProps{
		Metric: orders.Metric("DeadLettered", nil), Threshold: jsii.Number(10), EvaluationPeriods: jsii.Number(1),
	})
	refused.AddAlarmAction(awscloudwatchactions.NewSnsAction(topic))
	return nil
}

// setting returns a setting of the context, or nothing.
func setting(app awscdk.App, name string) string {
	value, _ := app.Node().TryGetContext(jsii.String(name)).(string)
	return value
}

// addDomain gives the HTTP API of a pipeline a name. Your DNS points it at the domain's target.
func addDomain(stack awscdk.Stack, p *infra.Pipeline) {
	domain := awsapigatewayv2.NewDomainName(stack, jsii.String("Domain"), &awsapigatewayv2.DomainNameProps{
		DomainName:  jsii.String("orders.shop.example"),
		Certificate: awscertificatemanager.Certificate_FromCertificateArn(stack, jsii.String("Certificate"), jsii.String(certificate)),
	})
	awsapigatewayv2.NewApiMapping(stack, jsii.String("Mapping"), &awsapigatewayv2.ApiMappingProps{Api: p.API.HTTP, Stage: p.API.HTTPStage, DomainName: domain})
}

// addWebACL limits the requests of each address to the REST API of a pipeline.
func addWebACL(stack awscdk.Stack, p *infra.Pipeline) {
	visible := func(name string) *awswafv2.CfnWebACL_VisibilityConfigProperty {
		return &awswafv2.CfnWebACL_VisibilityConfigProperty{CloudWatchMetricsEnabled: jsii.Bool(true), MetricName: jsii.String(name), SampledRequestsEnabled: jsii.Bool(false)}
	}
	acl := awswafv2.NewCfnWebACL(stack, jsii.String("WebAcl"), &awswafv2.CfnWebACLProps{
		Scope:            jsii.String("REGIONAL"),
		DefaultAction:    &awswafv2.CfnWebACL_DefaultActionProperty{Allow: &awswafv2.CfnWebACL_AllowActionProperty{}},
		VisibilityConfig: visible("billing"),
		Rules: []any{&awswafv2.CfnWebACL_RuleProperty{
			Name: jsii.String("rate"), Priority: jsii.Number(0), VisibilityConfig: visible("rate"),
			Action:    &awswafv2.CfnWebACL_RuleActionProperty{Block: &awswafv2.CfnWebACL_BlockActionProperty{}},
			Statement: &awswafv2.CfnWebACL_StatementProperty{RateBasedStatement: &awswafv2.CfnWebACL_RateBasedStatementProperty{AggregateKeyType: jsii.String("IP"), Limit: jsii.Number(1000)}},
		}},
	})
	awswafv2.NewCfnWebACLAssociation(stack, jsii.String("WebAclOfBilling"), &awswafv2.CfnWebACLAssociationProps{
		ResourceArn: p.API.RESTStage.StageArn(), WebAclArn: acl.AttrArn(),
	})
}
