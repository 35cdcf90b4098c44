"""What happened, in the order of commits: each partner's events feed, and the changes of stores.

Nothing here decides what an event says or who is called: features above write, and partners read at their own pace.
"""
