"""What the groups of the API document are about, in the order in which its page shows them."""

TAGS = {
    "tables": "People's tables: their columns, and whether what actions write asks for approval.",
    "records": "The rows of a table, by the names of its columns.",
    "triggers": "What fires on the rows of a table: by schedule or by event, and why.",
    "triggerRuns": "What triggers have caused: runs with a receipt for each action.",
    "stagedChanges": "What actions wanted to write into tables that ask for approval.",
    "scpRules": "Which chatrooms of a channel may do what with a table's records.",
    "bundle": "Everything that an author writes as one document: exported, planned, applied.",
    "runDueTriggers": "One tick of the scheduler, for an outside clock.",
    "events": "What happened, told once: the rules that it matches schedule their actions.",
    "lineUsers": "Contacts, whom events, links and executions are about.",
    "triggerRules": "What events lead to.",
    "workflows": "Trees of actions, delays, waits for a click and branches, and their executions.",
    "scheduledActions": "Actions that wait for their time or for a click, and what became of them.",
    "trackingLinks": "Addresses of ours that lead on to a target, and the clicks on them.",
    "commands": "What invoke_command may call.",
    "chatrooms": "What notify wrote.",
    "tokens": "Who may call, and in which role.",
    "signingKeys": "What webhooks are signed with.",
    "tenants": "Whose everything is.",
    "reference": "This document.",
}
