package infra

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"
)

const (
	// anyConfig is the configuration of a template that is made for none: it has no sources, and
	// needs no permissions.
	anyConfig = "streams: {any: {}}\n"
	// maxInline is the longest configuration in a parameter, in bytes. Lambda has 4 KB for all
	// variables of a function, and the others of [Pipeline.environment] need up to 1,950.
	maxInline = 2048
)

// Archives are packed functions in a bucket, as `make archives` builds them. Their names are those
// of the files, such as once-ingest-arm64.zip, after a prefix. All fields but Policy are required,
// and may be parameters of a template.
type Archives struct {
	Bucket awss3.IBucket
	// Prefix of the keys. It ends in a slash, or is empty.
	Prefix *string
	// Architecture is arm64 or x86_64.
	Architecture *string
	// Config is the text of once.yaml, with more than one line, or its path in the archives.
	Config *string
	// Policy is attached to the roles of the functions. It grants the permissions for destinations
	// that PipelineProps.Config does not have. Defaults to none.
	Policy awsiam.IManagedPolicy
}

// code returns the archive of a function.
func (a *Archives) code(name string) awslambda.Code {
	key := awscdk.Fn_Join(jsii.String(""), &[]*string{a.Prefix, jsii.String("once-" + strings.ToLower(name) + "-"), a.Architecture, jsii.String(".zip")})
	return awslambda.Code_FromBucket(a.Bucket, key, nil)
}

// architecture returns the instruction set that a parameter names.
func (a *Archives) architecture() awslambda.Architecture {
	return awslambda.Architecture_Custom(a.Architecture, nil)
}

// checkTemplate returns an error if settings name functions: those of a template are in a bucket.
func (s *Settings) checkTemplate(given map[string]any) error {
	if !s.Template {
		return nil
	}
	for _, name := range []string{"assets", "ingestFunction", "processFunction", "publishFunction"} {
		if given[name] != nil {
			return fmt.Errorf("context %s: the functions of a template are archives in a bucket, named by its parameters CodeBucket and CodePrefix", name)
		}
	}
	return nil
}

// stackProps returns the props of the stack. A template needs no bootstrapped account: the
// synthesizer refuses assets.
func (s *Settings) stackProps() *awscdk.StackProps {
	props := &awscdk.StackProps{Description: jsii.String("once: at-least-once delivery, effectively once")}
	if s.Template {
		props.Synthesizer = awscdk.NewBootstraplessSynthesizer(&awscdk.BootstraplessSynthesizerProps{})
		props.SuppressTemplateIndentation = jsii.Bool(true)
	} else {
		props.TerminationProtection = jsii.Bool(s.DeletionProtection && !s.Emulator)
	}
	return props
}

// addParameters adds the parameters of a template, and sets the archives from them.
func (s *Settings) addParameters(stack awscdk.Stack) {
	add := func(name string, props awscdk.CfnParameterProps) awscdk.CfnParameter {
		return awscdk.NewCfnParameter(stack, jsii.String(name), &props)
	}
	bucket := add("CodeBucket", awscdk.CfnParameterProps{
		Description: jsii.String("Bucket with the archives of the functions, in the region of the stack."), AllowedPattern: jsii.String(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`),
	})
	prefix := add("CodePrefix", awscdk.CfnParameterProps{
		Description: jsii.String("Prefix of their keys, such as once/v1.2.0/. Each version needs another one, or the functions are not updated."), Default: jsii.String(""),
		AllowedPattern: jsii.String(`^([^/].*/)?$`), ConstraintDescription: jsii.String("must be empty, or end in a slash and not begin with one"),
	})
	architecture := add("Architecture", awscdk.CfnParameterProps{
		Description: jsii.String("Instruction set of the functions."), AllowedValues: jsii.Strings("arm64", "x86_64"), Default: architecture(s.Architecture).Name(),
	})
	config := awscdk.CfnParameterProps{
		Description:    jsii.String("The text of once.yaml, or its path in the archives. It must not name sources (ingress)."),
		MaxLength:      jsii.Number(maxInline),
		AllowedPattern: jsii.String(`^([\s\S]*\n[\s\S]*|[A-Za-z0-9._/-]+\.ya?ml)$`), ConstraintDescription: jsii.String("must be YAML of more than one line, or a path that ends in .yaml"),
	}
	if s.ConfigFile != "" {
		config.Description = jsii.String("The text of once.yaml, or its path in the archives. The template is made for its default: another one must have the same sources, and no further destinations without DestinationPolicy.")
		config.Default = jsii.String(s.Config)
		if len(s.Config) > maxInline {
			config.Default = jsii.String(configFile)
		}
	}
	policy := add("DestinationPolicy", awscdk.CfnParameterProps{
		Description: jsii.String("ARN of a managed policy with further permissions for destinations and secrets."), Default: jsii.String(""), AllowedPattern: optional(policyARN),
	})
	s.Archives = &Archives{
		Bucket: awss3.Bucket_FromBucketName(stack, jsii.String("Code"), bucket.ValueAsString()), Prefix: prefix.ValueAsString(), Architecture: architecture.ValueAsString(),
		Config: add("Config", config).ValueAsString(),
		Policy: awsiam.ManagedPolicy_FromManagedPolicyArn(stack, jsii.String("ExtraPolicy"), unlessEmpty(stack, policy, awscdk.Aws_NO_VALUE())),
	}
	orElse(&s.MetricsNamespace, *awscdk.Aws_STACK_NAME())
	unused := jsii.String("the empty default of a parameter is not used: a condition leaves it out")
	awscdk.Validations_Of(stack).Acknowledge(
		&awscdk.Acknowledgment{Id: jsii.String("CloudFormation-Validate::F3031"), Reason: unused},
		&awscdk.Acknowledgment{Id: jsii.String("CloudFormation-Validate::F3033"), Reason: unused},
	)
}

// topics returns the topics of alarms and of pages. Those of a template are parameters, with the
// settings as defaults.
func (s *Settings) topics(stack awscdk.Stack) (alarms, pages awssns.ITopic) {
	if !s.Template {
		return topic(stack, "AlarmTopic", s.AlarmTopic), topic(stack, "PageTopic", s.PageTopic)
	}
	parameter := func(name, description, value string) awscdk.CfnParameter {
		return awscdk.NewCfnParameter(stack, jsii.String(name), &awscdk.CfnParameterProps{
			Description: jsii.String(description), Default: jsii.String(value), AllowedPattern: optional(topicARN),
		})
	}
	all := unlessEmpty(stack, parameter("AlarmTopic", "ARN of the SNS topic of alarms.", s.AlarmTopic), awscdk.Aws_NO_VALUE())
	some := unlessEmpty(stack, parameter("PageTopic", "ARN of the SNS topic of alarms with the severity page, in place of AlarmTopic.", s.PageTopic), all)
	return awssns.Topic_FromTopicArn(stack, jsii.String("Alarmed"), all), awssns.Topic_FromTopicArn(stack, jsii.String("Paged"), some)
}

// unlessEmpty returns the value of a parameter, or another one if the parameter is empty.
func unlessEmpty(stack awscdk.Stack, parameter awscdk.CfnParameter, otherwise *string) *string {
	has := awscdk.NewCfnCondition(stack, jsii.String("Has"+*parameter.Node().Id()), &awscdk.CfnConditionProps{
		Expression: awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(parameter.ValueAsString(), jsii.String(""))),
	})
	return awscdk.Token_AsString(awscdk.Fn_ConditionIf(has.LogicalId(), parameter.ValueAsString(), otherwise), nil)
}

// optional returns the pattern of a parameter that has a shape or is empty.
func optional(s shape) *string {
	return jsii.String("^(" + strings.Trim(s.pattern.String(), "^$") + ")?$")
}
