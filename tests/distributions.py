"""The packages of this workspace, where a test looks at all code that is published."""

from typing import Final

import mercato
import mercato_catalog
import mercato_client
import mercato_contract
import mercato_outbound
import mercato_tools

PACKAGES: Final = (
    mercato,
    mercato_catalog,
    mercato_client,
    mercato_contract,
    mercato_outbound,
    mercato_tools,
)
