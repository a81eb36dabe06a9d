package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
)

// listedService is one row of `stado service list`.
type listedService struct {
	Name        fleet.ServiceName    `json:"name"`
	Protocol    fleet.Protocol       `json:"protocol"`
	ActiveHosts []fleet.HostName     `json:"active_hosts"`
	Consumers   []fleet.ConsumerName `json:"consumers"`
}

func newServiceList(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the services of the registry this host holds", Args: cobra.NoArgs,
		Example: "  stado service list --json",
		RunE: func(*cobra.Command, []string) error {
			s, err := a.held()
			if err != nil {
				return err
			}
			list := []listedService{}
			rows := [][]string{{"SERVICE", "PROTOCOL", "ACTIVE ON", "CONSUMERS"}}
			for _, name := range s.Registry.ServiceNames() {
				svc := s.Registry.Directory.Services[name]
				row := listedService{Name: name, Protocol: svc.Protocol, ActiveHosts: svc.ActiveHosts, Consumers: slices.Sorted(maps.Keys(svc.Consumers))}
				list = append(list, row)
				rows = append(rows, []string{string(name), string(svc.Protocol), joined(row.ActiveHosts), joined(row.Consumers)})
			}
			if asJSON {
				return a.printJSON(list)
			}
			return a.table(rows)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func joined[T ~string](names []T) string {
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = string(n)
	}
	return strings.Join(words, ",")
}
