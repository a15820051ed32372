package infra

import (
	"fmt"
	"os"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// mainPipeline is the id of the pipeline of a stack that NewStack makes.
const mainPipeline = "Pipeline"

// NewStack returns the stack of a whole system. If the configuration or a bootstrap is invalid, it
// returns an error.
func NewStack(scope constructs.Construct, s Settings) (awscdk.Stack, error) {
	if err := s.readConfig(); err != nil {
		return nil, err
	}
	stack := awscdk.NewStack(scope, jsii.String(s.Stack), s.stackProps())
	s.Unprotected = !s.DeletionProtection
	if s.Construct {
		return stack, s.addConstruct(stack)
	}
	s.lookUp(stack)
	p, err := NewPipeline(stack, mainPipeline, &s.PipelineProps)
	if err != nil {
		return nil, err
	}
	alarms, err := NewAlarms(stack, "Alarms", p, &AlarmsProps{
		Age: s.AlarmAge, Topic: topic(stack, "AlarmTopic", s.AlarmTopic), PageTopic: topic(stack, "PageTopic", s.PageTopic), Off: s.AlarmsOff, AccountConcurrency: s.AccountConcurrency, Emulator: s.Emulator,
	})
	if err != nil {
		return nil, err
	}
	if !s.Emulator {
		NewDashboard(stack, "Dashboard", p, alarms)
	}
	newOutputs(p, "")
	awscdk.Tags_Of(stack).Add(jsii.String("once:stack"), jsii.String(s.Stack), nil)
	for name, value := range s.Tags {
		awscdk.Tags_Of(stack).Add(jsii.String(name), jsii.String(value), nil)
	}
	return stack, nil
}

// stackProps returns the props of the stack. The template for the construct needs no bootstrapped
// account: the synthesizer refuses assets.
func (s *Settings) stackProps() *awscdk.StackProps {
	props := &awscdk.StackProps{Description: jsii.String("once: at-least-once delivery, effectively once")}
	if s.Construct {
		props.Synthesizer = awscdk.NewBootstraplessSynthesizer(&awscdk.BootstraplessSynthesizerProps{})
		props.SuppressTemplateIndentation = jsii.Bool(true)
	} else {
		props.TerminationProtection = jsii.Bool(s.DeletionProtection && !s.Emulator)
	}
	return props
}

// readConfig reads the file of the configuration. A template that is made for none has none.
func (s *Settings) readConfig() error {
	if s.Construct && s.ConfigFile == "" {
		s.Config = anyConfig
		orElse(&s.MaxReceives, maxReceives) // the policies are not known
		return nil
	}
	text, err := os.ReadFile(s.ConfigFile)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	s.Config = string(text)
	return nil
}

// lookUp takes the existing resources that settings name.
func (s *Settings) lookUp(stack awscdk.Stack) {
	if s.EncryptionKey != "" {
		s.Keys.Default = awskms.Key_FromKeyArn(stack, jsii.String("EncryptionKey"), jsii.String(s.EncryptionKey))
	}
	s.Tables = tablesOf(stack, s)
	s.Network = existingNetwork(stack, s.VPC, s.SubnetIDs, s.SecurityGroupIDs)
	if s.BoundaryARN != "" {
		s.PermissionsBoundary = awsiam.ManagedPolicy_FromManagedPolicyArn(stack, jsii.String("Boundary"), jsii.String(s.BoundaryARN))
	}
	for i, arn := range s.LayerARNs {
		s.Layers = append(s.Layers, awslambda.LayerVersion_FromLayerVersionArn(stack, jsii.String("Layer"+strconv.Itoa(i)), jsii.String(arn)))
	}
}

// tablesOf returns existing tables, or makes new ones. It returns nil for a template of the
// construct, whose pipeline makes them.
func tablesOf(stack awscdk.Stack, s *Settings) *Tables {
	if s.GroupsTable != "" {
		return ExistingTables(stack, s.GroupsTable, s.TokensTable)
	}
	if s.Construct {
		return nil
	}
	return NewTables(stack, "Tables", &TablesProps{Unprotected: !s.DeletionProtection, Key: s.Keys.Default})
}

func topic(scope constructs.Construct, id, arn string) awssns.ITopic {
	if arn == "" {
		return nil
	}
	return awssns.Topic_FromTopicArn(scope, jsii.String(id), jsii.String(arn))
}

// NewApp returns an app with pinned feature flags of the CDK, regardless of how it is started.
func NewApp() awscdk.App {
	return awscdk.NewApp(&awscdk.AppProps{AnalyticsReporting: jsii.Bool(false), Context: &map[string]any{
		"@aws-cdk/aws-iam:minimizePolicies":                           true,
		"@aws-cdk/aws-apigateway:disableCloudWatchRole":               true,
		"@aws-cdk/core:checkSecretUsage":                              true,
		"@aws-cdk/aws-lambda:useLatestRuntimeVersion":                 true,
		"@aws-cdk/core:enablePartitionLiterals":                       true,
		"@aws-cdk/aws-apigateway:authorizerChangeDeploymentLogicalId": true,
	}})
}
