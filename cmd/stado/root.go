package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"stado.internal/stado/agent/config"
)

// app is what every verb shares: the streams and the global flags.
type app struct {
	stdout, stderr io.Writer
	home           string
	logFormat      string
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "stado",
		Short: "Run a fleet of plain hosts from a registry in git",
		Long: `stado keeps a fleet of plain hosts reachable at stable local addresses. The declared state is a CUE registry in a git
repository; an agent on each host admits its commits and relays connections to the services that they name.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if a.logFormat != "text" && a.logFormat != "json" {
				return misused(fmt.Errorf("--log-format is %q (write text or json)", a.logFormat))
			}
			return withValues(c)
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.home, "home", "", "state directory (default $STADO_HOME, else /var/lib/stado for root, ~/.stado otherwise)")
	flags.StringVar(&a.logFormat, "log-format", "text", "form of the lines on stderr: text or json")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misused(err) })
	root.AddCommand(
		newUp(a), newInit(a), newVet(a), newPlan(a), newBump(a), newFmt(a), newHook(a), newVersion(a), newSandbox(a),
		group("agent", "Run and inspect this host's agent", newAgentRun(a), newAgentStatus(a), newAgentSuspend(a), newAgentResume(a), newAgentAcceptReset(a)),
		group("resolver", "Ask this host's resolver", newResolverStatus(a), newResolverResolve(a), newResolverSnapshot(a)),
		group("registry", "Read, change, stamp and examine registries", newRegistryShow(a), newRegistryLog(a), newRegistryStamp(a),
			newRegistryExplain(a), newRegistryDoctor(a), newRegistryPull(a), newRegistryPush(a), newRegistryImport(a), newRegistryExport(a), newRegistryClaim(a), newRegistryHeal(a),
			group("bundle", "Carry a registry's history in a file", newBundleCreate(a), newBundleVerify(a))),
		group("service", "List services and find their addresses", newServiceList(a), newServiceDeclare(a),
			group("consumer", "Say who may call a service", newServiceConsumerAdd(a), newServiceConsumerRemove(a)),
			group("directory", "Where services are placed and how to reach them", newDirectoryShow(a), newDirectoryConnect(a))),
		group("authority", "Serve the registry from this host", newAuthorityInit(a), newAuthorityStatus(a), newAuthorityTake(a)),
		group("hostkey", "The SSH keys of hosts, and what is known of them", newHostKeyShow(a), newHostKeyPin(a)),
		group("placement", "Route services to hosts", newPlacementMove(a)),
		group("host", "Declare hosts and work on them", newHostAdd(a), newHostBootstrap(a), newHostAccount(a), newHostExec(a), newHostRecover(a), newHostReboot(a)),
		group("schema", "The registry schema of this version", newSchemaExport(a)),
	)
	return root
}

// group is a noun: it has verbs and does nothing itself, so that a mistyped verb is a usage error and not silence.
func group(name, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: name, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return misused(fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath()))
		},
	}
	c.AddCommand(verbs...)
	return c
}

// log is the story on stderr: text is exactly the sentence, json carries the same sentence in msg.
func (a *app) log() *slog.Logger {
	if a.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.stderr, nil))
	}
	return slog.New(&plainHandler{out: a.stderr})
}

// agentHome is the state directory for a verb that runs an agent.
func (a *app) agentHome() (string, error) {
	if a.home != "" {
		return filepath.Abs(a.home)
	}
	return config.DefaultHome()
}

// clientHome is the state directory for a verb that reads what an agent published.
func (a *app) clientHome(published string) (string, error) {
	if a.home != "" {
		return filepath.Abs(a.home)
	}
	return config.FindHome(published)
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// table writes aligned columns; the first row is the heading.
func (a *app) table(rows [][]string) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, cell)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
