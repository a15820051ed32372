package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/internal/config"
)

// Keys are customer-managed keys of KMS that encrypt the resources of a pipeline. The functions get
// the permission to use them. The policy of a key of the same app gets the services that need it.
// That of an imported key must have them already, see docs/security.md.
type Keys struct {
	// Default is the key of everything that has none of its own below. Defaults to keys that AWS
	// manages.
	Default awskms.IKey
	// Logs is the key of the logs of functions and API, Environment that of the variables of the
	// functions.
	Tables, Queues, Bucket, Logs, Environment awskms.IKey
}

func (k Keys) withDefaults() Keys {
	for _, key := range []*awskms.IKey{&k.Tables, &k.Queues, &k.Bucket, &k.Logs, &k.Environment} {
		if *key == nil {
			*key = k.Default
		}
	}
	return k
}

// keyUse are the actions with which a service uses a key for its caller, without wildcards.
//
//nolint:gochecknoglobals // a constant list
var keyUse = []string{
	"kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo",
}

// grantUse allows a function to use the keys of what it reads and writes. CloudWatch uses that of
// the logs itself.
func (k Keys) grantUse(grantee awsiam.IGrantable) {
	granted := map[string]bool{}
	for _, key := range []awskms.IKey{k.Tables, k.Queues, k.Bucket, k.Environment} {
		if key != nil && !granted[*key.KeyArn()] {
			granted[*key.KeyArn()] = true
			key.Grant(grantee, *jsii.Strings(keyUse...)...)
		}
	}
}

// admitLogs allows CloudWatch to encrypt log groups of the account.
func (k Keys) admitLogs(stack awscdk.Stack) {
	if k.Logs == nil {
		return
	}
	groups := stack.FormatArn(&awscdk.ArnComponents{Service: jsii.String("logs"), Resource: jsii.String("*"), ArnFormat: awscdk.ArnFormat_NO_RESOURCE_NAME})
	admit(k.Logs, awsiam.NewServicePrincipal(jsii.String("logs."+*stack.Region()+".amazonaws.com"), nil), keyUse,
		map[string]any{"ArnLike": map[string]any{"kms:EncryptionContext:aws:logs:arn": groups}})
}

// admitSources allows the sources of messages to send to encrypted queues. The policy of its queue
// limits each source.
func (k Keys) admitSources(c *config.Config) {
	if k.Queues == nil {
		return
	}
	admitted := map[string]bool{}
	for _, name := range c.IngressNames() {
		source := c.Ingress[name]
		if principal := principalOf(source); principal != nil && !admitted[string(source.From)] {
			admitted[string(source.From)] = true
			admit(k.Queues, principal, []string{"kms:Decrypt", "kms:GenerateDataKey"}, nil)
		}
	}
}

// admit adds a statement to the policy of a key, unless the key is imported.
func admit(key awskms.IKey, principal awsiam.IPrincipal, actions []string, conditions map[string]any) {
	props := &awsiam.PolicyStatementProps{Principals: &[]awsiam.IPrincipal{principal}, Actions: jsii.Strings(actions...), Resources: jsii.Strings("*")}
	if conditions != nil {
		props.Conditions = &conditions
	}
	key.AddToResourcePolicy(awsiam.NewPolicyStatement(props), jsii.Bool(true))
}
