package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/change"
)

// consumerReceipt is the JSON answer of `stado service consumer add|remove`.
type consumerReceipt struct {
	receipt
	Service      fleet.ServiceName  `json:"service"`
	Consumer     fleet.ConsumerName `json:"consumer"`
	Capabilities []string           `json:"capabilities,omitempty"`
}

func newServiceConsumerAdd(a *app) *cobra.Command {
	var f changing
	var capabilities []string
	c := &cobra.Command{
		Use:   "add SERVICE CONSUMER",
		Short: "Let a consumer call a service",
		Long: `Declare CONSUMER as a caller of SERVICE. A consumer that is declared already is given the capabilities that it lacks, and keeps
those that it has.` + changeHelp,
		Example: "  stado service consumer add shop web --push\n  stado service consumer add shop web --capability order --capability refund --dry-run",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			service, consumer := fleet.ServiceName(args[0]), fleet.ConsumerName(args[1])
			if err := checkName("consumer", args[1]); err != nil {
				return refused(err)
			}
			answer := consumerReceipt{Service: service, Consumer: consumer}
			out, err := a.apply(c, f, func(d *change.Draft) error {
				s, err := serviceOf(d, service)
				if err != nil {
					return err
				}
				d.Subject = change.Subject{Kind: "consumer", Summary: fmt.Sprintf("services/%s: consumer %s may call", service, consumer)}
				answer.Capabilities, err = addConsumer(d, service, s, consumer, capabilities)
				return err
			})
			if err != nil {
				return err
			}
			answer.receipt = newReceipt(out, "added", "already_declared")
			return a.answerChange(f, out, answer, fmt.Sprintf("consumer %s may call %s", consumer, service),
				fmt.Sprintf("service %s declares consumer %s already", service, consumer))
		},
	}
	f.flags(c)
	c.Flags().StringArrayVar(&capabilities, "capability", nil, "a word that the service understands (may be given several times)")
	return c
}

// addConsumer declares a consumer with at least some capabilities, and gives all that it has then.
func addConsumer(d *change.Draft, service fleet.ServiceName, s fleet.Service, name fleet.ConsumerName, capabilities []string) ([]string, error) {
	declared, ok := s.Consumers[name]
	all := slices.Clone(declared.Capabilities)
	for _, word := range capabilities {
		if !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	path := servicePath(service, "consumers", string(name))
	switch {
	case !ok:
		return all, d.Put(fleet.Consumer{Capabilities: all}, path...)
	case len(all) > len(declared.Capabilities):
		return all, d.Put(all, append(path, "capabilities")...)
	}
	return all, nil
}

func newServiceConsumerRemove(a *app) *cobra.Command {
	var f changing
	c := &cobra.Command{
		Use:   "remove SERVICE CONSUMER",
		Short: "Take a consumer off a service",
		Long: `Remove CONSUMER from the callers of SERVICE. It is refused while an adapter is for that consumer, and for the last consumer: a
service without consumers serves nobody.` + changeHelp,
		Example: "  stado service consumer remove shop web --push",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			service, consumer := fleet.ServiceName(args[0]), fleet.ConsumerName(args[1])
			out, err := a.apply(c, f, func(d *change.Draft) error {
				d.Subject = change.Subject{Kind: "consumer", Summary: fmt.Sprintf("services/%s: consumer %s may call no more", service, consumer)}
				return removeConsumer(d, service, consumer)
			})
			if err != nil {
				return err
			}
			answer := consumerReceipt{receipt: newReceipt(out, "removed", "not_declared"), Service: service, Consumer: consumer}
			return a.answerChange(f, out, answer, fmt.Sprintf("consumer %s may call %s no more", consumer, service),
				fmt.Sprintf("service %s declares no consumer %s", service, consumer))
		},
	}
	f.flags(c)
	return c
}

func removeConsumer(d *change.Draft, service fleet.ServiceName, consumer fleet.ConsumerName) error {
	s, err := serviceOf(d, service)
	if err != nil {
		return err
	}
	if _, ok := s.Consumers[consumer]; !ok {
		return nil
	}
	var users []string
	for _, name := range d.Registry.HostNames() {
		resolver := d.Registry.Hosts[name].Resolver
		if resolver == nil {
			continue
		}
		for i, ad := range resolver.Adapters {
			if ad.Service == service && ad.Consumer == consumer {
				users = append(users, fmt.Sprintf("%s of host %s (%s)", ad.Bind, name, d.At("hosts", string(name), "service_resolver", "adapters", fmt.Sprint(i))))
			}
		}
	}
	switch {
	case len(users) > 0:
		return fmt.Errorf("consumer %s of service %s has adapters: %s (remove them first)", consumer, service, strings.Join(users, ", "))
	case len(s.Consumers) == 1:
		return fmt.Errorf("consumer %s is the last one of service %s (%s), which would serve nobody (remove the service, or add another consumer first)",
			consumer, service, d.At(servicePath(service, "consumers", string(consumer))...))
	}
	d.Accept(func(next *fleet.Registry, _ string) error {
		if _, still := next.Directory.Services[service].Consumers[consumer]; still {
			return fmt.Errorf("service %s declares consumer %s in another place too, such as a template (edit it by hand)", service, consumer)
		}
		return nil
	})
	return d.Delete(servicePath(service, "consumers", string(consumer))...)
}
