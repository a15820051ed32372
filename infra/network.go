package infra

import (
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// A Network is a VPC in which the functions run. It needs endpoints of DynamoDB, S3 and SQS, and of
// the services of the destinations and secrets, or a way to the internet.
type Network struct {
	VPC awsec2.IVpc
	// Subnets default to the private subnets with a way to the internet.
	Subnets *awsec2.SubnetSelection
	// SecurityGroups default to a new one for each function, which allows all outbound traffic.
	SecurityGroups []awsec2.ISecurityGroup
}

// networkUse are the actions with which Lambda attaches a function to a network.
//
//nolint:gochecknoglobals // a constant list
var networkUse = []string{
	"ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:DeleteNetworkInterface",
	"ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
}

// apply sets the network of a function, and allows its role to attach the function to it. These
// actions have no resources to name.
func (n *Network) apply(props *awslambda.FunctionProps, role awsiam.Role) {
	if n == nil {
		return
	}
	props.Vpc, props.VpcSubnets = n.VPC, n.Subnets
	if len(n.SecurityGroups) > 0 {
		props.SecurityGroups = &n.SecurityGroups
	}
	allow(role, jsii.String("*"), networkUse...)
}

// existingNetwork returns a network by the ids of its parts.
func existingNetwork(scope constructs.Construct, vpc string, subnets, groups []string) *Network {
	if vpc == "" {
		return nil
	}
	n := &Network{Subnets: &awsec2.SubnetSelection{}}
	zones := make([]*string, len(subnets)) // the CDK wants as many, and the template has none
	chosen := make([]awsec2.ISubnet, len(subnets))
	for i, id := range subnets {
		zones[i] = jsii.String("zone-" + strconv.Itoa(i))
		chosen[i] = awsec2.Subnet_FromSubnetId(scope, jsii.String(id), jsii.String(id))
	}
	n.VPC = awsec2.Vpc_FromVpcAttributes(scope, jsii.String("Vpc"), &awsec2.VpcAttributes{VpcId: jsii.String(vpc), AvailabilityZones: &zones})
	n.Subnets.Subnets = &chosen
	for _, id := range groups {
		n.SecurityGroups = append(n.SecurityGroups, awsec2.SecurityGroup_FromSecurityGroupId(scope, jsii.String(id), jsii.String(id), nil))
	}
	return n
}
