package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/change"
	"stado.internal/stado/schema"
	"stado.internal/stado/schema/edit"
)

// declareReceipt is the JSON answer of `stado service declare`.
type declareReceipt struct {
	receipt
	Service   fleet.ServiceName                        `json:"service"`
	Host      fleet.HostName                           `json:"host"`
	Endpoints map[fleet.HostName]fleet.ServiceEndpoint `json:"endpoints"`
	Consumers []fleet.ConsumerName                     `json:"consumers"`
	Source    *declaredSource                          `json:"source,omitempty"`
}

type declaredSource struct {
	Artifact string `json:"artifact"`
	SHA256   string `json:"sha256"`
}

func newServiceDeclare(a *app) *cobra.Command {
	var f changing
	var file string
	c := &cobra.Command{
		Use:   "declare --file FILE",
		Short: "Declare a service from a file",
		Long: `Declare the service that FILE describes, in a file of its own, services/NAME.cue; where the service is declared already, what FILE
says is merged into it. FILE is JSON, or CUE that computes nothing, with these keys:

  name       the service
  host       the host that serves it
  consumers  who may call it: a list of names, or a struct NAME: capabilities: […]; at least one
  endpoints  HOST: url, or HOST: url: …, for every host that can serve it, the host above among them
  port       instead of endpoints: http://127.0.0.1:PORT (tcp:// with protocol "tcp") on the host
  protocol   "http" (the default) or "tcp"
  verify     how an address is proved: kind "http" or "tcp", from, expect
  check      how a host tests its endpoint: kind "none", "tcp", "http" or "exec", …
  selector   what narrows the candidates by live state
  source     artifact and sha256 of what was installed: noted in the commit, not in the registry

A registry says where a service answers, not how it is run: the keys run and declaration are refused. So is what is retired or not
known, by name and line.` + changeHelp,
		Example: "  stado service declare --file wiki.json --push\n  stado service declare --file wiki.cue --dry-run\n" +
			`  echo '{"name": "wiki", "host": "a1", "port": 8080, "consumers": ["people"]}' | stado service declare --file - --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return misused(fmt.Errorf("--file is missing (name the declaration, or - for stdin)"))
			}
			name, data, err := readInput(file, c.InOrStdin(), maxDeclaration)
			if err != nil {
				return refused(fmt.Errorf("cannot read the declaration: %w", err))
			}
			declared, err := readDeclaration(name, data)
			if err != nil {
				return refused(err)
			}
			return a.declare(c, f, declared)
		},
	}
	f.flags(c)
	c.Flags().StringVar(&file, "file", "", "the declaration, or - for stdin")
	return c
}

func (a *app) declare(c *cobra.Command, f changing, declared declaration) error {
	answer := declareReceipt{Service: declared.name, Host: declared.host, Consumers: slices.Sorted(maps.Keys(declared.consumers))}
	out, err := a.apply(c, f, func(d *change.Draft) (err error) {
		answer.Endpoints, err = declared.into(d)
		return err
	})
	if err != nil {
		return err
	}
	answer.receipt = newReceipt(out, "declared", "already_declared")
	if declared.artifact != "" {
		answer.Source = &declaredSource{declared.artifact, declared.sha256}
	}
	return a.answerChange(f, out, answer, fmt.Sprintf("declared service %s on %s", declared.name, declared.host),
		fmt.Sprintf("service %s is declared so already", declared.name))
}

// into writes the declaration into a draft, and gives the endpoints that it declares.
func (n declaration) into(d *change.Draft) (map[fleet.HostName]fleet.ServiceEndpoint, error) {
	if _, err := hostOf(d, n.host); err != nil {
		return nil, err
	}
	d.Subject = change.Subject{Kind: "declare", Summary: fmt.Sprintf("services/%s: declare on %s", n.name, n.host)}
	if n.artifact != "" {
		d.Subject.Extra = []string{"Stado-Source-Artifact: " + n.artifact, "Stado-Source-SHA256: " + n.sha256}
	}
	held, exists := d.Registry.Directory.Services[n.name]
	if exists && n.protocol == "" {
		n.protocol = held.Protocol
	}
	endpoints := n.addresses()
	if !exists {
		return endpoints, n.create(d, endpoints)
	}
	return endpoints, n.merge(d, held, endpoints)
}

// addresses are the declared endpoints, with the port spelled out.
func (n declaration) addresses() map[fleet.HostName]fleet.ServiceEndpoint {
	if n.port == 0 {
		return n.endpoints
	}
	scheme := "http"
	if n.protocol == fleet.ProtocolTCP {
		scheme = "tcp"
	}
	return map[fleet.HostName]fleet.ServiceEndpoint{n.host: {URL: fmt.Sprintf("%s://127.0.0.1:%d", scheme, n.port)}}
}

// create writes the file of a new service, in the order in which people write one.
func (n declaration) create(d *change.Draft, endpoints map[fleet.HostName]fleet.ServiceEndpoint) error {
	v, err := edit.Marshal(fleet.Service{
		ActiveHosts: []fleet.HostName{n.host}, Endpoints: endpoints, Consumers: n.consumers, Selector: n.selector, Protocol: n.protocol,
	})
	if err != nil {
		return err
	}
	v.Data = append(v.Members(), n.structs()...)
	return d.CreateValue("services/"+schema.EntryFile(string(n.name)), v, servicePath(n.name)...)
}

// structs are the parts that are taken as they are written.
func (n declaration) structs() []edit.Member {
	var out []edit.Member
	for _, m := range []edit.Member{{Name: "check", Value: n.check}, {Name: "verify", Value: n.verify}} {
		if m.Value.Members() != nil {
			out = append(out, m)
		}
	}
	return out
}

// merge changes what the declaration says of a service that is there, and leaves what it does not say.
func (n declaration) merge(d *change.Draft, held fleet.Service, endpoints map[fleet.HostName]fleet.ServiceEndpoint) error {
	put := func(value any, labels ...string) error { return d.Put(value, servicePath(n.name, labels...)...) }
	for _, host := range slices.Sorted(maps.Keys(endpoints)) {
		if held.Endpoints[host] != endpoints[host] {
			if err := put(endpoints[host].URL, "endpoints", string(host), "url"); err != nil {
				return err
			}
		}
	}
	if !slices.Contains(held.ActiveHosts, n.host) {
		if err := put([]fleet.HostName{n.host}, "active_hosts"); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.consumers)) {
		if _, err := addConsumer(d, n.name, held, name, n.consumers[name].Capabilities); err != nil {
			return err
		}
	}
	if n.protocol != held.Protocol {
		if err := put(n.protocol, "protocol"); err != nil {
			return err
		}
	}
	if n.selector != "" && n.selector != held.Selector {
		if err := put(n.selector, "selector"); err != nil {
			return err
		}
	}
	return n.mergeStructs(d)
}

// mergeStructs sets each field that the declaration writes of check and verify, unless the registry says so already.
func (n declaration) mergeStructs(d *change.Draft) error {
	document, err := edit.ReadJSON("", d.Document)
	if err != nil {
		return err
	}
	for _, part := range n.structs() {
		for _, m := range part.Value.Members() {
			path := servicePath(n.name, part.Name, m.Name)
			if now, ok := document.At(path...); ok && now.Equal(m.Value) {
				continue
			}
			if err := d.PutValue(m.Value, path...); err != nil {
				return fmt.Errorf("%s of service %s: %w", strings.Join(path[3:], "."), n.name, err)
			}
		}
	}
	return nil
}
