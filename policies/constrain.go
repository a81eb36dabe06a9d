package policies

import (
	"slices"
	"strings"

	"stado.internal/stado/fleet"
)

// Constraining are the rules of this package that refuse something at a field, in the order of their ids. Those of the schema are not
// among them, nor what a fleet's own policies ask: they may ask anything of any field.
func Constraining(fieldPath string) []Rule {
	labels, err := fleet.SplitFieldPath(fieldPath)
	if err != nil {
		return nil
	}
	var ids []string
	for _, c := range constraints() {
		if matches(strings.Fields(c.at), labels) {
			ids = append(ids, c.rules...)
		}
	}
	return slices.DeleteFunc(Rules(), func(r Rule) bool { return !slices.Contains(ids, r.ID) })
}

// matches reports whether labels are those of a pattern: * is any label, and … at its end whatever lies at or below.
func matches(pattern, labels []string) bool {
	for i, p := range pattern {
		switch {
		case p == "…":
			return true
		case i == len(labels), p != "*" && p != labels[i]:
			return false
		}
	}
	return len(pattern) == len(labels)
}

// constraint says where rules look.
type constraint struct {
	at    string // labels with spaces between them
	rules []string
}

func constraints() []constraint {
	listener := []string{RuleBindClash, RuleBindExposed, RuleBindAddress}
	view := []string{RuleBindClash, RuleBindExposed, RuleBindAddress, RuleNoCertificate}
	times := []string{RulePresenceTimes, RuleDuration}
	out := []constraint{
		{"…", []string{RuleNotOwned}},
		{"service_directory generation", []string{RuleReused, RuleRollback, RuleLeap, RuleStamped}},
		{"service_directory authority …", []string{RuleAuthorityAlone, RuleEpoch}},
		{"service_directory authority host", []string{RuleAuthority, RuleAuthoritySSH}},

		{"service_directory services …", []string{RuleChangedServices}},
		{"service_directory services *", []string{RuleTwice}},
		{"service_directory services * active_hosts …", []string{RuleUnknownHost, RuleNoEndpoint, RuleActiveTwice}},
		{"service_directory services * endpoints *", []string{RuleUnknownHost}},
		{"service_directory services * endpoints * url", []string{RuleEndpoint, RuleProtocol}},

		{"hosts", []string{RuleEmptyFleet, RuleRemovedHosts}},
		{"hosts *", []string{RuleEmptyFleet, RuleRemovedHosts, RuleIdentity, RuleTwice}},
		{"hosts * hostnames …", []string{RuleIdentity}},
		{"hosts * ssh", []string{RuleDestination, RuleIdentity}},
		{"hosts * ssh_fallbacks * destination", []string{RuleDestination, RuleIdentity}},
		{"hosts * service_resolver api_bind", listener},
		{"hosts * service_resolver max_stale_seconds", []string{RuleMaxStale}},
		{"hosts * service_resolver adapters * bind", listener},
		{"hosts * service_resolver adapters * service", []string{RuleNoService}},
		{"hosts * service_resolver adapters * consumer", []string{RuleNoConsumer}},
		{"hosts * service_resolver adapters * protocol", []string{RuleProtocol}},

		{"hosts * edge name", []string{RuleNoEdge}},
		{"hosts * edge addresses *", []string{RuleEdgeOrigin}},
		{"hosts * objects", []string{RuleNoObjects}},
		{"hosts * objects bind", listener},
		{"hosts * console bind", view},
		{"hosts * metrics bind", view},
		{"hosts * relay socket", listener},
		{"hosts * relay slots * attach", []string{RuleBindAddress, RuleUnknownHost, RuleSlotSSH, RuleSlotLoop, RuleSlotTwice}},
		{"hosts * relay limits max_chunk", []string{RuleRelayLimits}},

		{"edges * selection interval", []string{RuleEdgeInterval, RuleDuration}},
		{"edges * selection timeout", []string{RuleDuration}},
		{"edges * selection max_age", []string{RuleDuration}},
		{"edges * selection tolerance", []string{RuleDuration}},
		{"gateway listen", []string{RuleBindAddress}},
		{"gateway header_timeout", []string{RuleDuration}},
		{"trust signers * key", []string{RuleSignerKey, RuleSignerUnread}},
		{"presence nats cluster *", []string{RulePresenceStore, RuleUnknownHost}},
	}
	for _, of := range []string{"presence ", "hosts * presence "} { // the fleet's settings, and a host's own
		out = append(out, []constraint{
			{of + "heartbeat_interval", times},
			{of + "degraded_after", times},
			{of + "offline_after", times},
			{of + "reap_after", times},
			{of + "driver", []string{RulePresenceStore}},
			{of + "nats address", []string{RulePresenceStore}},
			{of + "nats embedded", []string{RulePresenceStore}},
			{of + "nats ttl", []string{RulePresenceTTL, RuleDuration}},
		}...)
	}
	return out
}
